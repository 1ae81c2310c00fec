// Patches of an image: taken, merged, and cleaned in groups of alike ones. See numba_cpu/local_gaussian.py.
#pragma once

// Sums that many groups add to are kept as integers: these add up to the same whatever their order.
constexpr double FIXED = 4294967296.0;

INLINE void add_fixed(long long* target, double value) {
#ifdef __CUDACC__
    atomicAdd((unsigned long long*)target, (unsigned long long)__double2ll_rn(value * FIXED));
#else
    *target += llrint(value * FIXED);
#endif
}

// The patches at some positions of one channel, counted row by row, (n, size * size).
template <typename T>
ENTRY take_patches(const float* channel, const long long* positions, int n_patches, int width, int size, T* patches) {
    const int n_pixels = size * size, n_columns = width - size + 1;
    EACH_THREAD(task, (long long)n_patches * n_pixels) {
        const long long position = positions[task / n_pixels];
        const int pixel = (int)(task % n_pixels);
        const long long row = position / n_columns + pixel / size, column = position % n_columns + pixel % size;
        patches[task] = T(channel[row * width + column]);
    }
}

// Add the patches of some rows of positions, (n, stride) of which the first size * size are pixels, to a channel.
template <typename T>
ENTRY merge_patches(const T* patches, const T* weights, int first_row, int n_position_rows, int height, int width,
                    int size, int stride, T* total, T* weight) {
    const int n_columns = width - size + 1;
    EACH_THREAD(task, (long long)height * width) {
        const int row = (int)(task / width), column = (int)(task % width);
        T sum = T(0), all = T(0);
        for (int i = 0; i < size; ++i) {
            const int r = row - i - first_row;
            if (r < 0 || r >= n_position_rows) continue;
            for (int j = 0; j < size; ++j) {
                const int c = column - j;
                if (c < 0 || c >= n_columns) continue;
                const long long n = (long long)r * n_columns + c;
                sum += weights[n] * patches[n * stride + i * size + j];
                all += weights[n];
            }
        }
        total[task] += sum;
        weight[task] += all;
    }
}

struct Picture {
    int height, width, n_colours, size, reach, n_alike;
    INLINE int n_pixels() const { return size * size; }
    INLINE int most() const { return (2 * reach + 1) * (2 * reach + 1); }
};

// Where the patches lie that are nearest to the one in the middle, (n, 2); returns how many.
template <typename T>
INLINE int find_alike(const T* pilot, const Picture& p, int row, int column, T* distances, int* places) {
    constexpr int G = 32;
    typedef unsigned long long Key;
    const int top = row - p.reach > 0 ? row - p.reach : 0, left = column - p.reach > 0 ? column - p.reach : 0;
    const int bottom = row + p.reach < p.height - p.size ? row + p.reach : p.height - p.size;
    const int right = column + p.reach < p.width - p.size ? column + p.reach : p.width - p.size;
    const int across = right - left + 1, n_places = (bottom - top + 1) * across;
    EACH_LANE(lane, G) for (int k = lane; k < n_places; k += G) {
        T total = T(0);
        for (int i = 0; i < p.size; ++i) {
            const T* one = pilot + ((long long)(top + k / across + i) * p.width + left + k % across) * p.n_colours;
            const T* other = pilot + ((long long)(row + i) * p.width + column) * p.n_colours;
            for (int j = 0; j < p.size * p.n_colours; ++j) total += (one[j] - other[j]) * (one[j] - other[j]);
        }
        distances[k] = total;
    }
    group_sync<G>();
    const int n_alike = p.n_alike < n_places ? p.n_alike : n_places;
    PerLane<Key, G> best;
    Key last = ~0ull;
    EACH_LANE(lane, G) best[lane] = last;
    for (int m = 0; m < n_alike; ++m) {
        EACH_LANE(lane, G) if (best[lane] >= last) {
            Key largest = 0;
            for (int k = lane; k < n_places; k += G) {
                const Key key = key_of(-(float)distances[k], k);
                if (key < last && key > largest) largest = key;
            }
            best[lane] = largest;
        }
        last = group_max<Key, G>(best);
        const int k = (int)(0xffffffffu - (unsigned)(last & 0xffffffffu));
        EACH_LANE(lane, G) if (lane == 0) {
            places[2 * m] = top + k / across;
            places[2 * m + 1] = left + k % across;
        }
    }
    group_sync<G>();
    return n_alike;
}

// The group's guesses and noisy patches of one colour, (n, D) each, about the mean of the guesses.
template <typename T>
INLINE void gather_group(const T* noisy, const T* pilot, const Picture& p, const int* places, int n, int colour, T* A,
                         T* Y) {
    constexpr int G = 32;
    EACH_LANE(lane, G) for (int d = lane; d < p.n_pixels(); d += G) {
        T mean = T(0);
        for (int m = 0; m < n; ++m) {
            const long long pixel = (long long)(places[2 * m] + d / p.size) * p.width + places[2 * m + 1] + d % p.size;
            A[m * p.n_pixels() + d] = pilot[pixel * p.n_colours + colour];
            Y[m * p.n_pixels() + d] = noisy[pixel * p.n_colours + colour];
            mean += A[m * p.n_pixels() + d];
        }
        mean /= T(n);
        for (int m = 0; m < n; ++m) {
            A[m * p.n_pixels() + d] -= mean;
            Y[m * p.n_pixels() + d] -= mean;
        }
    }
    group_sync<G>();
}

// L <- Cholesky's factor of A A^T + ridge I, and B <- A Y^T, (n, n) each.
template <typename T> INLINE void factorise(const T* A, const T* Y, int n, int D, T ridge, T* L, T* B) {
    constexpr int G = 32;
    EACH_LANE(lane, G) for (int pair = lane; pair < n * n; pair += G) {
        const T *one = A + pair / n * D, *other = A + pair % n * D, *noisy = Y + pair % n * D;
        T gram = pair / n == pair % n ? ridge : T(0), cross = T(0);
        for (int d = 0; d < D; ++d) {
            gram += one[d] * other[d];
            cross += one[d] * noisy[d];
        }
        L[pair] = gram;
        B[pair] = cross;
    }
    group_sync<G>();
    for (int j = 0; j < n; ++j) {
        T pivot = L[j * n + j];
        for (int k = 0; k < j; ++k) pivot -= L[j * n + k] * L[j * n + k];
        const T root = sqrt(pivot);
        group_sync<G>();
        EACH_LANE(lane, G) for (int i = j + lane; i < n; i += G) {
            T value = L[i * n + j];
            for (int k = 0; k < j; ++k) value -= L[i * n + k] * L[j * n + k];
            L[i * n + j] = i == j ? root : value / root;
        }
        group_sync<G>();
    }
}

// X <- L^-1 X, column by column.
template <typename T> INLINE void forward(const T* L, int n, int n_columns, T* X) {
    constexpr int G = 32;
    EACH_LANE(lane, G) for (int d = lane; d < n_columns; d += G)
        for (int m = 0; m < n; ++m) {
            T value = X[m * n_columns + d];
            for (int k = 0; k < m; ++k) value -= L[m * n + k] * X[k * n_columns + d];
            X[m * n_columns + d] = value / L[m * n + m];
        }
    group_sync<G>();
}

// What all groups say of each pixel, added to `sums` (3, height, width, colours), as fixed-point numbers of w, w (x - g)
// and w v, in units of 1 / least, sigma / least and sigma^2 / least: see numba_cpu.
template <typename T>
ENTRY clean_groups(const T* noisy, const T* pilot, const int* rows, const int* columns, int n_rows, int n_columns,
                   int height, int width, int n_colours, int size, int reach, int n_alike, T noise_variance, T least,
                   int n_slots, int slot_size, T* work, int* all_places, long long* sums) {
    constexpr int G = 32;
    const Picture p{height, width, n_colours, size, reach, n_alike};
    const int D = p.n_pixels();
    const long long n_values = (long long)height * width * n_colours;
    EACH_GROUP(slot, n_slots, G) {
        T *distances = work + slot * slot_size, *A = distances + p.most(), *Y = A + n_alike * D, *S = Y + n_alike * D;
        T *L = S + n_alike * D, *B = L + n_alike * n_alike;
        int* places = all_places + slot * 2 * n_alike;
        for (long long middle = slot; middle < (long long)n_rows * n_columns; middle += n_slots) {
            const int row = rows[middle / n_columns], column = columns[middle % n_columns];
            const int n = find_alike<T>(pilot, p, row, column, distances, places);
            for (int colour = 0; colour < n_colours; ++colour) {
                gather_group<T>(noisy, pilot, p, places, n, colour, A, Y);
                const T ridge = noise_variance * T(n > 1 ? n - 1 : 1);
                factorise<T>(A, Y, n, D, ridge, L, B);
                EACH_LANE(lane, G) for (int k = lane; k < n * D; k += G) S[k] = A[k];
                group_sync<G>();
                forward<T>(L, n, D, S);
                forward<T>(L, n, n, B);
                PerLane<T, G> gained;
                EACH_LANE(lane, G) {
                    gained[lane] = T(0);
                    for (int d = lane; d < D; d += G)
                        for (int m = 0; m < n; ++m) gained[lane] += S[m * D + d] * S[m * D + d];
                }
                const T mean_gain = group_sum<T, G>(gained) / T(D);
                const double weight = (double)least / ((double)noise_variance * mean_gain + least);
                const double sigma = sqrt((double)noise_variance);
                EACH_LANE(lane, G) for (int d = lane; d < D; d += G) {
                    T gain = T(0);
                    for (int m = 0; m < n; ++m) gain += S[m * D + d] * S[m * D + d];
                    for (int m = 0; m < n; ++m) {
                        T cleaned = T(0);
                        for (int k = 0; k < n; ++k) cleaned += B[k * n + m] * S[k * D + d];
                        const long long r = places[2 * m] + d / size, c = places[2 * m + 1] + d % size;
                        const long long pixel = (r * width + c) * n_colours + colour;
                        add_fixed(sums + pixel, weight);
                        add_fixed(sums + n_values + pixel, weight * (cleaned - A[m * D + d]) / sigma);
                        add_fixed(sums + 2 * n_values + pixel, weight * gain);
                    }
                }
                group_sync<G>();
            }
        }
    }
}
