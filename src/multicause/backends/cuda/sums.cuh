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
        for (long long n = first; n < end; ++n) {
            const double weight = s[n * n_latents + h], value = x[n * n_latents + h];
            total_s += weight;
            total_x += value;
            if (weight > 0.0) total_xx += weight * inverse[h] + value / weight * value;
        }
        double* target = sums + part * 3 * n_latents + h;
        target[0] = total_s;
        target[n_latents] = total_x;
        target[2 * n_latents] = total_xx;
    }
}

// Of the candidates' values. Pairs (row, place) are given in the order of their latents; a group of lanes takes a part
// of those of one latent h, and adds w_n times its moments with each other candidate to row h. Result (parts, H, H),
// which is zero before; and (parts, H) of the value numbered `active` + place, unless that is negative.
template <typename T>
ENTRY pair_sums(const T* values, const int* candidates, const long long* order, const long long* starts,
                const T* weights, int n_candidates, int stride, int active, int second, int n_latents, int n_parts,
                double* actives, double* pairs) {
    constexpr int G = 32;
    EACH_GROUP(task, (long long)n_parts * n_latents, G) {
        const int h = (int)(task % n_latents);
        const long long part = task / n_latents, count = starts[h + 1] - starts[h];
        const long long first = starts[h] + part * count / n_parts, end = starts[h] + (part + 1) * count / n_parts;
        double* row = pairs + task * n_latents;
        double total = 0.0;
        for (long long k = first; k < end; ++k) {
            const long long n = order[k] / n_candidates;
            const int i = (int)(order[k] % n_candidates);
            const T* own = values + n * stride;
            const double weight = weights[n];
            EACH_LANE(lane, G) for (int j = lane; j < n_candidates; j += G) {
                const int low = i < j ? i : j, high = i < j ? j : i;
                row[candidates[n * n_candidates + j]] += weight * own[second + at(low, high, n_candidates)];
            }
            if (active >= 0) total += weight * own[active + i];
            group_sync<G>();
        }
        EACH_LANE(lane, G) if (lane == 0 && active >= 0) actives[task] = total;
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
        for (long long n = first; n < end; ++n) {
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
        for (long long n = first; n < end; ++n) total += rows[n * n_columns + h];
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
