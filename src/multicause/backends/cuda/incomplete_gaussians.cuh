// Gaussians seen through noise and gaps: which one a row is from, and its posterior. See numba_cpu/incomplete_gaussians.py.
//
// With L L^T = Sigma_oo + sigma^2 I and B = L^-1 Sigma_o:, row a of B is what row a of Sigma_o: has left once the rows
// before it are taken off it; L_ab is B_b at the column of a, so that L need not be kept.
#pragma once

// What is seen of a row, in one Gaussian.
template <typename T> struct Seen {
    const T *y, *mean, *covariance;
    const int* places;
    T noise_variance;
    int count, n_features;
};

// B (count, columns), where columns are the seen ones only or all, and rest = L^-1 (y_o - mu_o); returns
// log N(y_o; mu_o, Sigma_oo + sigma^2 I) but for a constant of the row. Of seen columns those before the diagonal are
// not needed, and not written.
template <typename T> INLINE T eliminate(const Seen<T>& seen, bool all_columns, T* B, T* rest) {
    constexpr int G = 32;
    const int n_columns = all_columns ? seen.n_features : seen.count;
    T value = T(0);
    for (int a = 0; a < seen.count; ++a) {
        const int i = seen.places[a], own = all_columns ? i : a;
        const T* covariance = seen.covariance + (long long)i * seen.n_features;
        T gap = seen.y[i] - seen.mean[i], pivot = covariance[i] + seen.noise_variance;
        for (int b = 0; b < a; ++b) {
            const T share = B[(long long)b * n_columns + own];
            gap -= share * rest[b];
            pivot -= share * share;
        }
        const T root = sqrt(pivot), scale = T(1) / root;
        EACH_LANE(lane, G) for (int k = (all_columns ? 0 : a) + lane; k < n_columns; k += G) {
            T left = covariance[all_columns ? k : seen.places[k]];
            for (int b = 0; b < a; ++b) left -= B[(long long)b * n_columns + own] * B[(long long)b * n_columns + k];
            B[(long long)a * n_columns + k] = left * scale;
        }
        EACH_LANE(lane, G) if (lane == 0) rest[a] = gap * scale;
        value -= T(0.5) * (gap * scale * gap * scale) + log_of(root);
        group_sync<G>();
    }
    return value;
}

// Where a row is observed, in rising order; returns how many places.
INLINE int places_seen(const unsigned char* observed, int n_features, int* places) {
    constexpr int G = 32;
    int count = 0;
    for (int i = 0; i < n_features; ++i)
        if (observed[i]) {
            EACH_LANE(lane, G) if (lane == 0) places[count] = i;
            ++count;
        }
    group_sync<G>();
    return count;
}

// The candidate with the largest log pi_c + log N(y_o; mu_o, Sigma_oo + sigma^2 I) of each row, (N,). A slot works on
// D (D + 1) numbers and D places.
template <typename T>
ENTRY most_likely_gaussian(const T* Y, const unsigned char* observed, const int* candidates, const T* log_weights,
                           const T* means, const T* covariances, T noise_variance, int n_rows, int n_features,
                           int n_candidates, int n_slots, T* work, int* all_places, int* cluster) {
    EACH_GROUP(slot, n_slots, 32) {
        T *B = work + slot * n_features * (n_features + 1), *rest = B + (long long)n_features * n_features;
        int* places = all_places + slot * n_features;
        for (long long n = slot; n < n_rows; n += n_slots) {
            const int count = places_seen(observed + n * n_features, n_features, places);
            T highest = T(0);
            int best = 0;
            for (int k = 0; k < n_candidates; ++k) {
                const long long c = candidates[n * n_candidates + k];
                const T *mean = means + c * n_features, *covariance = covariances + c * n_features * n_features;
                const Seen<T> seen{Y + n * n_features, mean, covariance, places, noise_variance, count, n_features};
                const T value = log_weights[c] + eliminate(seen, false, B, rest);
                if (k == 0 || value > highest) {
                    highest = value;
                    best = (int)c;
                }
                group_sync<32>();
            }
            EACH_LANE(lane, 32) if (lane == 0) cluster[n] = best;
        }
    }
}

// Posterior means and variances of the rows numbered `rows`, (n, D) each; B, (n, D, D), whose later rows are left alone.
template <typename T>
ENTRY incomplete_posteriors(const T* Y, const unsigned char* observed, const long long* rows, const int* cluster,
                            const T* means, const T* covariances, T noise_variance, int n_rows, int n_features,
                            int n_slots, int keeps_all, T* all_B, T* work, int* all_places, T* expected, T* variance) {
    constexpr int G = 32;
    EACH_GROUP(slot, n_slots, G) {
        T* rest = work + slot * n_features;
        int* places = all_places + slot * n_features;
        for (long long k = slot; k < n_rows; k += n_slots) {
            const long long n = rows[k], c = cluster[n];
            T* B = all_B + (keeps_all ? k : slot) * n_features * n_features;
            const T *mean = means + c * n_features, *covariance = covariances + c * n_features * n_features;
            const int count = places_seen(observed + n * n_features, n_features, places);
            const Seen<T> seen{Y + n * n_features, mean, covariance, places, noise_variance, count, n_features};
            eliminate(seen, true, B, rest);
            EACH_LANE(lane, G) for (int d = lane; d < n_features; d += G) {
                T value = mean[d], left = covariance[(long long)d * n_features + d];
                for (int a = 0; a < count; ++a) {
                    const T share = B[(long long)a * n_features + d];
                    value += share * rest[a];
                    left -= share * share;
                }
                expected[n * n_features + d] = value;
                variance[n * n_features + d] = left;
            }
            group_sync<G>();
        }
    }
}
