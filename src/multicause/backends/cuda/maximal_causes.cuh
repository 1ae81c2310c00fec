// Maximal causes under Gaussian noise: every truncated state of a data point, lanes being dimensions.
//
// A state's mean is in each dimension its largest latent's, or the smooth maximum (sum_h u_h)^(1 / rho) while annealing
// is hot; latents share what they explain by A, see numba_cpu/maximal_causes.py. States are sets of candidates, as bits.
#pragma once

constexpr int STATES_AT_ONCE = 32;

// Of a dimension: the candidates' components, or their u where the maximum is smooth.
template <typename T, int H> struct Dimension {
    T value[H], root, largest;

    INLINE void load(const T* table, const int* candidates, int n_features, int d, T root_, T largest_) {
        root = root_;
        largest = largest_;
        UNROLL for (int i = 0; i < H; ++i) value[i] = table[(long long)candidates[i] * n_features + d];
    }
    INLINE T maximum(unsigned state) const {
        T top = T(0);
        UNROLL for (int i = 0; i < H; ++i) top = larger(top, state >> i & 1u ? value[i] : T(0));
        return top;
    }
    INLINE T sum(unsigned state) const {
        T total = T(0);
        UNROLL for (int i = 0; i < H; ++i) total += state >> i & 1u ? value[i] : T(0);
        return total;
    }
    INLINE T smooth_maximum(unsigned state) const {
        return state == 0u ? T(0) : largest * exp_of(root * log_of(sum(state)));
    }
};

// q of every state, (N, S), <s>, the weights of single latents, log Z of p^beta, and <log p>. `table` is u where `root`
// is not 0, else the components; `singles` (N, H) are log joints of single latents, and that of none is 0.
template <typename T, int H>
ENTRY maximal_weights(const T* Y, const T* singles, const int* candidates, const T* table, const T* largest,
                      const T* precision, const T* log_odds, const int* states, int n_states, int n_rows, int n_features,
                      int n_latents, int singletons, T root, T beta, T* log_normaliser, T* energy, T* q, T* means,
                      T* alone) {
    constexpr int G = 32, S = STATES_AT_ONCE;
    EACH_GROUP(n, n_rows, G) {
        const int* chosen = candidates + n * H;
        const T *y = Y + n * n_features, *row = singles + n * n_latents;
        PerLane<T, G> own;
        EACH_LANE(lane, G) {
            T top = T(0);
            int next = 0;
            if (singletons)
                for (int h = lane; h < n_latents; h += G) {
                    while (next < H && chosen[next] < h) ++next;
                    if (!(next < H && chosen[next] == h)) top = larger(top, row[h]);
                }
            own[lane] = top;
        }
        for (int first = 0; first < n_states; first += S) {
            PerLane<Values<T, S>, G> gains;
            EACH_LANE(lane, G) {
                T* gain = gains[lane].value;
                UNROLL for (int k = 0; k < S; ++k) gain[k] = T(0);
                for (int d = lane; d < n_features; d += G) {
                    Dimension<T, H> here;
                    here.load(table, chosen, n_features, d, root, largest[d]);
                    UNROLL for (int k = 0; k < S; ++k) {
                        if (first + k >= n_states) continue;
                        const unsigned state = states[first + k];
                        const T mean = root == T(0) ? here.maximum(state) : here.smooth_maximum(state);
                        gain[k] += precision[d] * (y[d] - T(0.5) * mean) * mean;
                    }
                }
            }
            sum_and_spread<T, S, G>(gains);
            EACH_LANE(lane, G) if (first + lane < n_states) {
                const unsigned state = states[first + lane];
                T x = gains[lane].value[0];
                UNROLL for (int i = 0; i < H; ++i) {
                    if (state >> i & 1u) x += log_odds[chosen[i]];
                    if (state == 1u << i) x = row[chosen[i]];
                }
                q[n * n_states + first + lane] = x;
                own[lane] = larger(own[lane], x);
            }
        }
        const T top = group_max<T, G>(own);
        PerLane<T, G> total, sum;
        EACH_LANE(lane, G) {
            total[lane] = sum[lane] = T(0);
            for (int k = lane; k < n_states; k += G) {
                const T below = larger(beta * (q[n * n_states + k] - top), Limits<T>::floor), w = exp_of(below);
                q[n * n_states + k] = w;
                total[lane] += w;
                sum[lane] += w * below;
            }
            int next = 0;
            for (int h = lane; h < n_latents; h += G) {
                while (next < H && chosen[next] < h) ++next;
                const bool outside = singletons && !(next < H && chosen[next] == h);
                const T below = outside ? beta * (row[h] - top) : Limits<T>::floor;
                const T w = below > Limits<T>::negligible ? exp_of(below) : T(0);
                means[n * n_latents + h] = w;
                total[lane] += w;
                sum[lane] += w * below;
            }
        }
        const T all = group_sum<T, G>(total), all_energy = group_sum<T, G>(sum), scale = T(1) / all;
        EACH_LANE(lane, G) {
            for (int h = lane; h < n_latents; h += G) {
                means[n * n_latents + h] *= scale;
                alone[n * n_latents + h] = means[n * n_latents + h];
            }
            for (int k = lane; k < n_states; k += G) q[n * n_states + k] *= scale;
            if (lane == 0) {
                log_normaliser[n] = beta * top + log_of(all);
                energy[n] = top + all_energy * scale / beta;
            }
        }
        group_sync<G>();
        UNROLL for (int i = 0; i < H; ++i) {
            PerLane<T, G> with, only;
            EACH_LANE(lane, G) {
                with[lane] = only[lane] = T(0);
                for (int k = lane; k < n_states; k += G) {
                    const unsigned state = states[k];
                    if (state >> i & 1u) with[lane] += q[n * n_states + k];
                    if (state == 1u << i) only[lane] += q[n * n_states + k];
                }
            }
            const T mean = group_sum<T, G>(with), single = group_sum<T, G>(only);
            EACH_LANE(lane, G) if (lane == 0) {
                means[n * n_latents + chosen[i]] = mean;
                alone[n * n_latents + chosen[i]] = single;
            }
        }
    }
}

// What candidates explain together: w_n <A>, (N, H', D), over states of two and more latents; and w_n <(y - mean)^2>,
// (N, D), over those and the empty one, where the maximum by which components learn is smooth (`root` is not 0). There
// `table` is u, `powers` v, and `judged` says whether the mean is the smooth maximum, too.
template <typename T, int H>
ENTRY maximal_shares(const T* Y, const T* q, const int* candidates, const T* components, const T* table,
                     const T* powers, const T* largest, const T* weights, const int* states, int n_states, int n_rows,
                     int n_features, T root, int judged, T* shares, T* squares) {
    const T NOTHING = T(1e-14);
    EACH_THREAD(task, (long long)n_rows * n_features) {
        const long long n = task / n_features;
        const int d = (int)(task % n_features);
        const int* chosen = candidates + n * H;
        Dimension<T, H> hard, soft;
        hard.load(components, chosen, n_features, d, T(0), T(1));
        if (root != T(0)) soft.load(table, chosen, n_features, d, root, largest[d]);
        T share[H], square = T(0);
        UNROLL for (int i = 0; i < H; ++i) share[i] = T(0);
        for (int k = 0; k < n_states; ++k) {
            const unsigned state = states[k];
            const T weight = q[n * n_states + k];
            const bool single = state != 0u && (state & (state - 1u)) == 0u;
            if (single || !(weight > NOTHING)) continue;
            if (root == T(0)) {
                const T top = hard.maximum(state);
                T ties = T(0);
                UNROLL for (int i = 0; i < H; ++i) ties += (state >> i & 1u) && hard.value[i] == top ? T(1) : T(0);
                UNROLL for (int i = 0; i < H; ++i)
                    if ((state >> i & 1u) && hard.value[i] == top) share[i] += weight / ties;
                continue;
            }
            const T smooth = soft.smooth_maximum(state), mean = judged ? smooth : hard.maximum(state);
            square += weight * (Y[task] - mean) * (Y[task] - mean);
            if (state == 0u) continue;
            const T together = soft.sum(state) * largest[d];
            const T factor = together > T(0) ? weight * smooth / together : T(0);
            UNROLL for (int i = 0; i < H; ++i)
                if (state >> i & 1u) share[i] += factor * powers[(long long)chosen[i] * n_features + d];
        }
        UNROLL for (int i = 0; i < H; ++i) shares[(n * H + i) * n_features + d] = weights[n] * share[i];
        squares[task] = weights[n] * square;
    }
}

// <maximum> over the candidates' states, (N, D).
template <typename T, int H>
ENTRY maximal_rebuilt(const T* q, const int* candidates, const T* components, const int* states, int n_states,
                      int n_rows, int n_features, T* rebuilt) {
    EACH_THREAD(task, (long long)n_rows * n_features) {
        const long long n = task / n_features;
        Dimension<T, H> here;
        here.load(components, candidates + n * H, n_features, (int)(task % n_features), T(0), T(1));
        T total = T(0);
        for (int k = 0; k < n_states; ++k) total += q[n * n_states + k] * here.maximum(states[k]);
        rebuilt[task] = total;
    }
}

// Sums over the rows of shares and of shares times y, (parts, 2, H, D); pairs (row, place) come in the order of latents.
template <typename T>
ENTRY share_sums(const T* Y, const T* shares, const int* order, const int* starts, int n_candidates,
                 int n_features, int n_latents, int n_parts, double* sums) {
    EACH_THREAD(task, (long long)n_parts * n_latents * n_features) {
        const int d = (int)(task % n_features), h = (int)(task / n_features % n_latents);
        const long long part = task / n_features / n_latents, count = starts[h + 1] - starts[h];
        const long long first = starts[h] + part * count / n_parts, end = starts[h] + (part + 1) * count / n_parts;
        double a = 0.0, ay = 0.0;
        for (long long k = first; k < end; ++k) {
            const double share = shares[(long long)order[k] * n_features + d];
            a += share;
            ay += share * Y[(long long)(order[k] / n_candidates) * n_features + d];
        }
        double* target = sums + (2 * part * n_latents + h) * n_features + d;
        target[0] = a;
        target[(long long)n_latents * n_features] = ay;
    }
}
