// Sums over data points, each in an order that the data alone decide, in double precision: the same bits every time.
#pragma once

// Of columns h, in parts of the rows: sums of s, of x = s z, and of s (inverse + z^2). Result (parts, 3, H).
template <typename T>
ENTRY column_sums(const T* s, const T* x, const T* inverse, int n_rows, int n_latents, int n_parts, double* sums) {
    EACH_THREAD(task, (long long)n_parts * n_latents) {
        const int h = (int)(task % n_latents);
        const long long part = task / n_latents;
        const long long first = part * n_rows / n_parts, end = (part + 1) * n_rows / n_parts;
        double total_s = 0.0, total_x = 0.0, total_xx = 0.0;
        UNROLL_BY_4 for (long long n = first; n < end; ++n) {
            const T weight = s[n * n_latents + h], value = x[n * n_latents + h];
            total_s += weight;
            total_x += value;
            total_xx += weight > T(0) ? weight * inverse[h] + value / weight * value : T(0);
        }
        double* target = sums + part * 3 * n_latents + h;
        target[0] = total_s;
        target[n_latents] = total_x;
        target[2 * n_latents] = total_xx;
    }
}

// How often each latent is a candidate in each part of the rows, (H, parts), which is zero before.
template <typename T>
ENTRY count_candidates(const int* candidates, int n_rows, int n_candidates, int n_parts, int* counts) {
    constexpr int G = 32;
    EACH_GROUP(part, n_parts, G) {
        const long long first = part * n_rows / n_parts, end = (part + 1) * n_rows / n_parts;
        for (long long n = first; n < end; ++n) {
            EACH_LANE(lane, G) for (int i = lane; i < n_candidates; i += G)
                ++counts[(long long)candidates[n * n_candidates + i] * n_parts + part];
            group_sync<G>();
        }
    }
}

// Pairs (row, place), counted as if candidates were flat, in the order of their latents, then of the rows; `ends` are
// the sums of the counts, which are used up.
template <typename T>
ENTRY order_candidates(const int* candidates, const int* ends, int n_rows, int n_candidates, int n_parts, int* counts,
                       int* order) {
    constexpr int G = 32;
    EACH_GROUP(part, n_parts, G) {
        const long long first = part * n_rows / n_parts, end = (part + 1) * n_rows / n_parts;
        for (long long n = first; n < end; ++n) {
            EACH_LANE(lane, G) for (int i = lane; i < n_candidates; i += G) {
                const long long pair = n * n_candidates + i, cell = (long long)candidates[pair] * n_parts + part;
                order[ends[cell] - counts[cell]--] = (int)pair;
            }
            group_sync<G>();
        }
    }
}

// Which of n_tasks equal shares of n_pairs holds a pair.
INLINE long long task_of(long long pair, long long n_pairs, int n_tasks) {
    return ((pair + 1) * n_tasks - 1) / n_pairs;
}

// Of the candidates' values. Pairs (row, place) are given in the order of their latents, and shared out evenly, since
// some latents are candidates of most rows. What a task has of latent h, w_n times its moments with each other candidate,
// goes to row task + h of `runs`, (tasks + H, H), which is zero before; no two tasks or latents share a row. The same
// of the value numbered `active` + place, unless that is negative. Up to COLUMNS latents are summed in shared memory.
template <typename T, int COLUMNS>
ENTRY pair_sums(const T* values, const int* candidates, const int* order, const int* starts, const T* weights,
                int n_pairs, int n_candidates, int stride, int active, int second, int n_latents, int n_tasks,
                double* actives, double* runs) {
    constexpr int G = 32, AT_ONCE = 4;
    GROUP_SHARED(Values<double COMMA(COLUMNS > 0 ? COLUMNS : 1)>, shared, G);
    EACH_GROUP(task, n_tasks, G) {
        if (COLUMNS > 0) EACH_LANE(lane, G) for (int c = lane; c < n_latents; c += G) shared.value[c] = 0.0;
        group_sync<G>();
        const long long end = (task + 1) * n_pairs / n_tasks;
        long long k = task * n_pairs / n_tasks;
        int h = k < end ? candidates[order[k]] : 0;
        while (k < end) {
            const long long stop = starts[h + 1] < end ? starts[h + 1] : end;
            double *run = runs + (task + h) * n_latents, *row = COLUMNS > 0 ? shared.value : run, total = 0.0;
            for (; k < stop; k += AT_ONCE) {
                PerLane<Values<double, AT_ONCE>, G> value;
                PerLane<Values<int, AT_ONCE>, G> column;
                UNROLL for (int a = 0; a < AT_ONCE; ++a) {
                    const int pair = order[k + a < stop ? k + a : k], i = pair % n_candidates;
                    const long long n = pair / n_candidates;
                    const T* own = values + n * stride;
                    const double weight = k + a < stop ? (double)weights[n] : 0.0;
                    EACH_LANE(lane, G) {
                        const int j = lane < n_candidates ? lane : 0, low = i < j ? i : j, high = i < j ? j : i;
                        column[lane].value[a] = candidates[n * n_candidates + j];
                        value[lane].value[a] = weight * own[second + at(low, high, n_candidates)];
                    }
                    if (active >= 0) total += weight * own[active + i];
                }
                UNROLL for (int a = 0; a < AT_ONCE; ++a) {
                    EACH_LANE(lane, G) if (lane < n_candidates) row[column[lane].value[a]] += value[lane].value[a];
                    group_sync<G>();
                }
            }
            EACH_LANE(lane, G) if (lane == 0 && active >= 0) actives[task + h] = total;
            if (COLUMNS > 0) EACH_LANE(lane, G) for (int c = lane; c < n_latents; c += G) {
                run[c] = row[c];
                row[c] = 0.0;
            }
            group_sync<G>();
            k = stop;
            while (h < n_latents && starts[h + 1] <= k) ++h;
        }
    }
}

// The sums over its tasks of what each latent has, (H, columns); `runs` (tasks + H, columns). Where they are scaled, by
// the units of row and column.
template <typename T>
ENTRY add_runs(const double* runs, const int* starts, const T* unit, int scaled, int n_latents, int n_columns,
               int n_tasks, double* sums) {
    EACH_THREAD(cell, (long long)n_latents * n_columns) {
        const int h = (int)(cell / n_columns), column = (int)(cell % n_columns);
        double total = 0.0;
        if (starts[h] < starts[h + 1]) {
            const long long n_pairs = starts[n_latents], last = task_of(starts[h + 1] - 1, n_pairs, n_tasks);
            UNROLL_BY_4 for (long long task = task_of(starts[h], n_pairs, n_tasks); task <= last; ++task)
                total += runs[(task + h) * n_columns + column];
        }
        sums[cell] = scaled ? total * unit[h] * unit[column] : total;
    }
}

// The sum of all parts, (columns,), of (parts, columns).
template <typename T> ENTRY add_parts(const T* parts, int n_parts, int n_columns, double* sums) {
    constexpr int G = 32;
    EACH_GROUP(column, n_columns, G) {
        PerLane<double, G> own;
        EACH_LANE(lane, G) {
            double total = 0.0;
            UNROLL_BY_4 for (int part = lane; part < n_parts; part += G) total += parts[part * (long long)n_columns + column];
            own[lane] = total;
        }
        const double total = group_sum<double, G>(own);
        EACH_LANE(lane, G) if (lane == 0) sums[column] = total;
    }
}

// Sums of w_n, w_n a_n and w_n b_n in parts of the rows, (parts, 3).
template <typename T>
ENTRY weighted_totals(const T* weights, const T* a, const T* b, int n_rows, int n_parts, double* sums) {
    constexpr int G = 32;
    EACH_GROUP(part, n_parts, G) {
        const long long first = part * n_rows / n_parts, end = (part + 1) * n_rows / n_parts;
        PerLane<double, G> own, own_a, own_b;
        EACH_LANE(lane, G) {
            own[lane] = own_a[lane] = own_b[lane] = 0.0;
            for (long long n = first + lane; n < end; n += G) {
                const double weight = weights[n];
                own[lane] += weight;
                own_a[lane] += weight * a[n];
                own_b[lane] += weight * b[n];
            }
        }
        const double total = group_sum<double, G>(own), total_a = group_sum<double, G>(own_a);
        const double total_b = group_sum<double, G>(own_b);
        EACH_LANE(lane, G) if (lane == 0) {
            sums[3 * part] = total;
            sums[3 * part + 1] = total_a;
            sums[3 * part + 2] = total_b;
        }
    }
}

// sum_n w_n y_nd^2 in parts of the rows, (parts, D); NaN where an entry is missing.
template <typename T>
ENTRY square_sums(const T* Y, const T* weights, int n_rows, int n_features, int n_parts, double* sums) {
    EACH_THREAD(task, (long long)n_parts * n_features) {
        const int d = (int)(task % n_features);
        const long long part = task / n_features;
        const long long first = part * n_rows / n_parts, end = (part + 1) * n_rows / n_parts;
        double total = 0.0;
        UNROLL_BY_4 for (long long n = first; n < end; ++n) {
            const double y = Y[n * n_features + d];
            total += weights[n] * (y * y);
        }
        sums[task] = total;
    }
}

// sum_d (scale_d y_d)^2 of each row.
template <typename T> ENTRY row_squares(const T* Y, const T* scale, int n_rows, int n_features, T* squares) {
    constexpr int G = 32;
    EACH_GROUP(n, n_rows, G) {
        PerLane<T, G> own;
        EACH_LANE(lane, G) {
            T total = T(0);
            for (int d = lane; d < n_features; d += G) {
                const T y = scale[d] * Y[n * n_features + d];
                total += y * y;
            }
            own[lane] = total;
        }
        const T total = group_sum<T, G>(own);
        EACH_LANE(lane, G) if (lane == 0) squares[n] = total;
    }
}

// The sum of all rows, in parts, (parts, H).
template <typename T> ENTRY column_totals(const T* rows, int n_rows, int n_columns, int n_parts, double* sums) {
    EACH_THREAD(task, (long long)n_parts * n_columns) {
        const int h = (int)(task % n_columns);
        const long long part = task / n_columns;
        const long long first = part * n_rows / n_parts, end = (part + 1) * n_rows / n_parts;
        double total = 0.0;
        UNROLL_BY_4 for (long long n = first; n < end; ++n) total += rows[n * n_columns + h];
        sums[task] = total;
    }
}

// Eight chains of multiplications and additions in each thread: what the device does at most.
template <typename T> ENTRY chains(int n_threads, int n_steps, T* result) {
    EACH_THREAD(task, n_threads) {
        T value[8];
        UNROLL for (int k = 0; k < 8; ++k) value[k] = result[task] + T(k);
        for (int step = 0; step < n_steps; ++step) UNROLL for (int k = 0; k < 8; ++k) value[k] = value[k] * T(0.999) + T(1e-3);
        T total = T(0);
        UNROLL for (int k = 0; k < 8; ++k) total += value[k];
        result[task] = total;
    }
}
