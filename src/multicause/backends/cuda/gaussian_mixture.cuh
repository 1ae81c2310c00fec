// Gaussian mixtures: densities of candidate clusters, sums over their rows, and rows without their noise.
// See numba_cpu/gaussian_mixture.py and numba_cpu/factor_mixture.py.
#pragma once

// sum_d (y_d - mu_cd)^2 precision_cd of each row's candidates, (N, C').
template <typename T>
ENTRY diagonal_distances(const T* Y, const int* candidates, const T* means, const T* precisions, int n_rows,
                         int n_features, int n_candidates, T* distances) {
    constexpr int G = 32;
    EACH_GROUP(pair, (long long)n_rows * n_candidates, G) {
        const T *y = Y + pair / n_candidates * n_features, *mean = means + (long long)candidates[pair] * n_features;
        const T* precision = precisions + (long long)candidates[pair] * n_features;
        PerLane<T, G> own;
        EACH_LANE(lane, G) {
            T total = T(0);
            for (int i = lane; i < n_features; i += G) total += (y[i] - mean[i]) * (y[i] - mean[i]) * precision[i];
            own[lane] = total;
        }
        const T total = group_sum<T, G>(own);
        EACH_LANE(lane, G) if (lane == 0) distances[pair] = total;
    }
}

// Sums of r d, (parts, C, D), and of r d d^T, (parts, C, D, D), or of its diagonal, over the pairs (row, candidate) of
// each cluster, which are given in the order of their clusters; d = y - mu_c.
template <typename T>
ENTRY mixture_sums(const T* Y, const T* r, const int* order, const int* starts, const T* means,
                   int n_candidates, int n_features, int n_clusters, int n_parts, int full, double* rd, double* rdd) {
    const int width = full ? n_features : 1;
    EACH_THREAD(task, (long long)n_parts * n_clusters * n_features * width) {
        const int i = (int)(task / width % n_features), j = full ? (int)(task % width) : i;
        const long long group = task / width / n_features;
        const int c = (int)(group % n_clusters);
        const long long part = group / n_clusters, count = (long long)starts[c + 1] - starts[c];
        const long long first = starts[c] + part * count / n_parts, end = starts[c] + (part + 1) * count / n_parts;
        const double mean_i = means[(long long)c * n_features + i], mean_j = means[(long long)c * n_features + j];
        double once = 0.0, twice = 0.0;
        for (long long k = first; k < end; ++k) {
            const T* y = Y + (long long)(order[k] / n_candidates) * n_features;
            const double share = r[order[k]] * (y[i] - mean_i);
            once += share;
            twice += share * (y[j] - mean_j);
        }
        if (i == j) rd[group * n_features + i] = once;
        rdd[task] = twice;
    }
}

// Squared distances (N, C) become -1/2 (distance precision_c - sum_j (places_j - offsets_j)^2) + peak_c, j over the
// directions of c.
template <typename T>
ENTRY factor_log_joint(const T* places, const T* offsets, const int* starts, const T* precisions, const T* peaks,
                       int n_rows, int n_clusters, int n_directions, T* values) {
    EACH_THREAD(task, (long long)n_rows * n_clusters) {
        const int c = (int)(task % n_clusters);
        const T* row = places + task / n_clusters * n_directions;
        T along = T(0);
        for (int j = starts[c]; j < starts[c + 1]; ++j) along += (row[j] - offsets[j]) * (row[j] - offsets[j]);
        values[task] = peaks[c] - T(0.5) * (values[task] * precisions[c] - along);
    }
}

// |y - mu_c|^2, (N, C).
template <typename T>
ENTRY squared_distances(const T* Y, const T* means, int n_rows, int n_features, int n_clusters, T* distances) {
    EACH_THREAD(task, (long long)n_rows * n_clusters) {
        const T *y = Y + task / n_clusters * n_features, *mean = means + task % n_clusters * n_features;
        T total = T(0);
        for (int i = 0; i < n_features; ++i) total += (y[i] - mean[i]) * (y[i] - mean[i]);
        distances[task] = total;
    }
}

// Means and variances (N, 2, D) over the candidates of mu_c + sum_j share_j (direction_j^T (y - mu_c)) direction_j;
// a lane has every 32nd of at most 32 TILES features.
template <typename T, int TILES>
ENTRY factor_clean(const T* Y, const int* candidates, const T* q, const T* means, const T* directions, const T* shares,
                   const int* starts, const T* left_over, int n_rows, int n_features, int n_candidates, T* result) {
    constexpr int G = 32;
    EACH_GROUP(n, n_rows, G) {
        PerLane<Values<T, TILES>, G> d, x, mean, variance;
        const T* y = Y + n * n_features;
        EACH_LANE(lane, G) UNROLL for (int t = 0; t < TILES; ++t) mean[lane].value[t] = variance[lane].value[t] = T(0);
        for (int k = 0; k < n_candidates; ++k) {
            const T weight = q[n * n_candidates + k];
            if (weight == T(0)) continue;
            const long long c = candidates[n * n_candidates + k];
            EACH_LANE(lane, G) UNROLL for (int t = 0; t < TILES; ++t) {
                const int i = t * G + lane;
                d[lane].value[t] = i < n_features ? y[i] - means[c * n_features + i] : T(0);
                x[lane].value[t] = -d[lane].value[t];
            }
            for (int j = starts[c]; j < starts[c + 1]; ++j) {
                const T* direction = directions + (long long)j * n_features;
                PerLane<T, G> own;
                EACH_LANE(lane, G) {
                    T along = T(0);
                    UNROLL for (int t = 0; t < TILES; ++t)
                        if (t * G + lane < n_features) along += direction[t * G + lane] * d[lane].value[t];
                    own[lane] = along;
                }
                const T along = shares[j] * group_sum<T, G>(own);
                EACH_LANE(lane, G) UNROLL for (int t = 0; t < TILES; ++t)
                    if (t * G + lane < n_features) x[lane].value[t] += along * direction[t * G + lane];
            }
            EACH_LANE(lane, G) UNROLL for (int t = 0; t < TILES; ++t) {
                const int i = t * G + lane;
                if (i >= n_features) continue;
                const T value = x[lane].value[t];
                mean[lane].value[t] += weight * value;
                variance[lane].value[t] += weight * (value * value + left_over[c * n_features + i]);
            }
        }
        EACH_LANE(lane, G) UNROLL for (int t = 0; t < TILES; ++t) {
            const int i = t * G + lane;
            if (i >= n_features) continue;
            const T shift = mean[lane].value[t];
            result[2 * n * n_features + i] = y[i] + shift;
            result[(2 * n + 1) * n_features + i] = larger(variance[lane].value[t] - shift * shift, T(0));
        }
    }
}
