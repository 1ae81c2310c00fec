// Spike-and-slab latents with independent coefficients: every truncated state of a data point, by Schur complements.
//
//     x(s) = sum_{h in s} a_h - log|det K_ss| / 2 + c_s^T K_ss^-1 c_s / 2,      K = I + G,   c = b + mu
//
// Adding a latent to a state eliminates it from K and c; on the way back an eliminated variable v is, given the rest,
// normal with mean (c_v - sum_i K_iv x_i) / K_vv and variance 1 / K_vv. See numba_cpu/spike_slab_linear.py.
#pragma once

template <typename T, int H> struct SlabPoint {
    T linear[H], offset[H], gram[triangle(H)];
    float rough_offset[H];
    int candidates[H];
};

// Expectations over the states of a subtree of M latents, times its weight.
template <typename T, int M> struct SlabSums {
    T weight, energy, active[M > 0 ? M : 1], first[M > 0 ? M : 1], second[M > 0 ? triangle(M) : 1];
};

// A state on the way to the leaves: its log joint, but that in double precision the square root of the determinant's
// inverse stands beside it, a factor of the weight: a logarithm per state would take as long as all the rest.
template <typename T> struct SlabState;
template <> struct SlabState<double> {
    double x, root;
    INLINE SlabState grown(double gain, double root_of_pivot) const { return {x + gain, root * root_of_pivot}; }
    INLINE double log_joint() const { return x + log_of(root); }
    INLINE double weight(double beta, double largest, double& energy) const {
        if (beta == 1.0) {  // the energy is of no use then
            energy = 0.0;
            return exp_of(larger(x - largest, Limits<double>::floor)) * root;
        }
        const double below = larger(beta * log_joint() - largest, Limits<double>::floor), w = exp_of(below);
        energy = w * below;
        return w;
    }
};
template <> struct SlabState<float> {
    float x, root;
    INLINE SlabState grown(float gain, float root_of_pivot) const { return {x + gain + log_of(root_of_pivot), 1.0f}; }
    INLINE float log_joint() const { return x; }
    INLINE float weight(float beta, float largest, float& energy) const {
        const float below = larger(beta * x - largest, Limits<float>::floor), w = exp_of(below);
        energy = w * below;
        return w;
    }
};

// Latent J of the M that remain, eliminated: what the m after it are left with. K - I has no negative direction.
template <typename T, int M, int J> struct Eliminated {
    static constexpr int m = M - 1 - J;
    T mean, inverse, factors[m > 0 ? m : 1], c[m > 0 ? m : 1], K[m > 0 ? triangle(m) : 1];

    INLINE SlabState<T> take(const T* c_above, const T* K_above, const T* offset, const SlabState<T>& above) {
        const T root = rsqrt_of(larger(K_above[at(J, J, M)], T(1)));
        inverse = root * root;
        mean = c_above[J] * inverse;
        UNROLL for (int i = 0; i < m; ++i) {
            const T column = K_above[at(J, J + 1 + i, M)];
            factors[i] = column * inverse;
            c[i] = c_above[J + 1 + i] - column * mean;
        }
        UNROLL for (int i = 0; i < m; ++i)
            UNROLL for (int k = i; k < m; ++k)
                K[at(i, k, m)] = K_above[at(J + 1 + i, J + 1 + k, M)] - factors[i] * K_above[at(J, J + 1 + k, M)];
        return above.grown(offset[J] + T(0.5) * mean * c_above[J], root);
    }
};

template <typename T> struct Largest {
    T value;
    INLINE void see(const SlabState<T>& state) { value = larger(value, state.log_joint()); }
};
template <typename T> struct Total {
    T beta, largest, weight, energy;
    INLINE void see(const SlabState<T>& state) {
        T more;
        weight += state.weight(beta, largest, more);
        energy += more;
    }
};

// All states of the M latents that remain, at most `left` of them on.
template <typename T, int M, int J, typename Visitor>
INLINE void slab_visit(const T* c, const T* K, const T* offset, const SlabState<T>& state, int left, Visitor& visitor) {
    if constexpr (J == 0) visitor.see(state);
    if constexpr (J < M) {
        if (left > 0) {
            Eliminated<T, M, J> below;
            const SlabState<T> grown = below.take(c, K, offset, state);
            slab_visit<T, M - 1 - J, 0>(below.c, below.K, offset + J + 1, grown, left - 1, visitor);
            slab_visit<T, M, J + 1>(c, K, offset, state, left, visitor);
        }
    }
}

// What latent J has in the states that hold it, from the moments of those after it.
template <typename T, int M, int J>
INLINE void slab_restore(const Eliminated<T, M, J>& gone, const SlabSums<T, M - 1 - J>& below, SlabSums<T, M>& sums) {
    constexpr int m = M - 1 - J;
    T x = below.weight * gone.mean;
    UNROLL for (int i = 0; i < m; ++i) x -= gone.factors[i] * below.first[i];
    T xx = below.weight * gone.inverse + gone.mean * x;
    UNROLL for (int i = 0; i < m; ++i) {
        T product = gone.mean * below.first[i];
        UNROLL for (int k = 0; k < m; ++k)
            product -= gone.factors[k] * below.second[k < i ? at(k, i, m) : at(i, k, m)];
        sums.second[at(J, J + 1 + i, M)] += product;
        xx -= gone.factors[i] * product;
    }
    sums.first[J] += x;
    sums.second[at(J, J, M)] += xx;
    sums.active[J] += below.weight;
    sums.weight += below.weight;
    sums.energy += below.energy;
    UNROLL for (int i = 0; i < m; ++i) {
        sums.active[J + 1 + i] += below.active[i];
        sums.first[J + 1 + i] += below.first[i];
        UNROLL for (int k = i; k < m; ++k) sums.second[at(J + 1 + i, J + 1 + k, M)] += below.second[at(i, k, m)];
    }
}

// The last few latents are walked without branches: states with too many are computed, and weigh nothing.
constexpr int WITHOUT_BRANCHES = 3;

template <typename T, int M, int J>
INLINE void slab_collect(const T* c, const T* K, const T* offset, const SlabState<T>& state, int left, T beta, T largest,
                         SlabSums<T, M>& sums) {
    if constexpr (J == 0) {
        sums.weight = state.weight(beta, largest, sums.energy);
        if (M < WITHOUT_BRANCHES && left < 0) sums.weight = sums.energy = T(0);
        UNROLL for (int i = 0; i < M; ++i) sums.active[i] = sums.first[i] = T(0);
        UNROLL for (int i = 0; i < triangle(M); ++i) sums.second[i] = T(0);
    }
    if constexpr (J < M) {
        if (M <= WITHOUT_BRANCHES || left > 0) {
            Eliminated<T, M, J> gone;
            const SlabState<T> grown = gone.take(c, K, offset, state);
            SlabSums<T, M - 1 - J> below;
            slab_collect<T, M - 1 - J, 0>(gone.c, gone.K, offset + J + 1, grown, left - 1, beta, largest, below);
            slab_restore<T, M, J>(gone, below, sums);
            slab_collect<T, M, J + 1>(c, K, offset, state, left, beta, largest, sums);
        }
    }
}

// A lane's own first latents, eliminated in place: K_vi becomes factors, K_vv an inverse pivot, c_v a mean.
template <typename T, int H> struct SlabTop {
    static constexpr int TOP = Shares<H>::TOP, M = Shares<H>::M;
    T c[H], K[triangle(H)];
    SlabState<T> state;

    template <typename P> INLINE void take(const SlabPoint<P, H>& point, const T* offset, unsigned mask) {
        state = {T(0), T(1)};
        UNROLL for (int i = 0; i < H; ++i) c[i] = T(point.linear[i]);
        UNROLL for (int i = 0; i < triangle(H); ++i) K[i] = T(point.gram[i]);
        UNROLL for (int v = 0; v < TOP; ++v)
            if (mask >> v & 1u) {
                const T root = rsqrt_of(larger(K[at(v, v, H)], T(1))), inverse = root * root, mean = c[v] * inverse;
                state = state.grown(offset[v] + T(0.5) * mean * c[v], root);
                UNROLL for (int i = v + 1; i < H; ++i) {
                    const T factor = K[at(v, i, H)] * inverse;
                    c[i] -= K[at(v, i, H)] * mean;
                    UNROLL for (int k = i; k < H; ++k) K[at(i, k, H)] -= factor * K[at(v, k, H)];
                }
                UNROLL for (int i = v + 1; i < H; ++i) K[at(v, i, H)] *= inverse;
                K[at(v, v, H)] = inverse;
                c[v] = mean;
            }
    }
    template <typename Visitor> INLINE void visit(const T* offset, int left, Visitor& visitor) const {
        slab_visit<T, M, 0>(c + TOP, K + at(TOP, TOP, H), offset + TOP, state, left, visitor);
    }
};

// Weight, energy, <s> (H), <x> (H), and <x x^T> (upper triangle): what is kept of a data point's states.
template <int H> CONSTANT int slab_values() { return 2 + 2 * H + triangle(H); }

template <typename T, int H>
INLINE void slab_lane(const SlabPoint<T, H>& point, unsigned mask, int max_active, T beta, T largest, T* value) {
    constexpr int TOP = Shares<H>::TOP, M = Shares<H>::M;
    SlabTop<T, H> top;
    top.take(point, point.offset, mask);
    SlabSums<T, M> below;
    slab_collect<T, M, 0>(top.c + TOP, top.K + at(TOP, TOP, H), point.offset + TOP, top.state,
                          max_active - count_bits(mask), beta, largest, below);
    T *active = value + 2, *first = active + H, *second = first + H;
    value[0] = below.weight;
    value[1] = below.energy;
    UNROLL for (int i = 0; i < M; ++i) {
        active[TOP + i] = below.active[i];
        first[TOP + i] = below.first[i];
    }
    UNROLL for (int i = 0; i < triangle(M); ++i) second[at(TOP, TOP, H) + i] = below.second[i];
    UNROLL for (int v = TOP - 1; v >= 0; --v) {
        const bool on = mask >> v & 1u;
        const T mean = top.c[v], inverse = top.K[at(v, v, H)];
        T x = below.weight * mean;
        UNROLL for (int i = v + 1; i < H; ++i) x -= top.K[at(v, i, H)] * first[i];
        T xx = below.weight * inverse + mean * x;
        UNROLL for (int i = v + 1; i < H; ++i) {
            T product = mean * first[i];
            UNROLL for (int k = v + 1; k < H; ++k)
                product -= top.K[at(v, k, H)] * second[k < i ? at(k, i, H) : at(i, k, H)];
            second[at(v, i, H)] = on ? product : T(0);
            xx -= top.K[at(v, i, H)] * product;
        }
        active[v] = on ? below.weight : T(0);
        first[v] = on ? x : T(0);
        second[at(v, v, H)] = on ? xx : T(0);
    }
}

// The candidates' part of a row.
template <typename T, int H, int G>
INLINE void slab_gather(SlabPoint<T, H>& point, const T* linear, const int* candidates, const T* offset, const T* gram,
                        int n_latents) {
    group_sync<G>();
    EACH_LANE(lane, G) for (int i = lane; i < H; i += G) {
        const int h = candidates[i];
        point.candidates[i] = h;
        point.linear[i] = linear[h];
        point.offset[i] = offset[h];
        point.rough_offset[i] = (float)offset[h];
    }
    group_sync<G>();
    EACH_LANE(lane, G) for (int p = lane; p < triangle(H); p += G) {
        int i = 0, rest = p;
        for (; rest >= H - i; ++i) rest -= H - i;
        point.gram[p] = gram[(long long)point.candidates[i] * n_latents + point.candidates[i + rest]];
    }
    group_sync<G>();
}

// All singletons of a row: s_h <- beta times their log joints, of candidates OFF; returns beta times the largest one.
template <typename T, int H, int G>
INLINE T slab_singletons(const SlabPoint<T, H>& point, const T* linear, const T* inverse, const T* constant, T beta,
                         int n_latents, T* s) {
    PerLane<T, G> own;
    EACH_LANE(lane, G) {
        T top = Limits<T>::off;
        for (int h = lane; h < n_latents; h += G) {
            const T x = beta * (constant[h] + T(0.5) * linear[h] * linear[h] * inverse[h]);
            top = larger(top, x);
            s[h] = x;
        }
        own[lane] = top;
    }
    group_sync<G>();
    EACH_LANE(lane, G) for (int i = lane; i < H; i += G) s[point.candidates[i]] = Limits<T>::off;
    group_sync<G>();
    return group_max<T, G>(own);
}

// s_h <- weights relative to the largest; returns their sum, and that of weights times exponents.
template <typename T, int G> INLINE T slab_weigh_singletons(T largest, int n_latents, T* s, T& energy) {
    PerLane<T, G> own, own_energy;
    EACH_LANE(lane, G) {
        T total = T(0), sum = T(0);
        for (int h = lane; h < n_latents; h += G) {
            const T below = s[h] - largest;
            T w = T(0);
            if (below > Limits<T>::negligible) {
                w = exp_of(below);
                total += w;
                sum += w * below;
            }
            s[h] = w;
        }
        own[lane] = total;
        own_energy[lane] = sum;
    }
    energy = group_sum<T, G>(own_energy);
    return group_sum<T, G>(own);
}

// beta times the largest log joint, or what is near enough to it: weights are relative to it, so that none overflows.
template <typename T, int H, int G>
INLINE T slab_largest(const SlabPoint<T, H>& point, const int* tops, int n_tops, int max_active, T beta) {
    PerLane<float, G> rough;
    EACH_LANE(lane, G) {
        Largest<float> seen{0.0f};
        for (int k = lane; k < n_tops; k += G) {
            SlabTop<float, H> top;
            top.take(point, point.rough_offset, tops[k]);
            top.visit(point.rough_offset, max_active - count_bits(tops[k]), seen);
        }
        rough[lane] = seen.value;
    }
    const float roughly = group_max<float, G>(rough);
    if (sizeof(T) == sizeof(float) || roughly < MOST_ROUGH) return beta * T(roughly);
    PerLane<T, G> own;
    EACH_LANE(lane, G) {
        Largest<T> seen{T(0)};
        for (int k = lane; k < n_tops; k += G) {
            SlabTop<T, H> top;
            top.take(point, point.offset, tops[k]);
            top.visit(point.offset, max_active - count_bits(tops[k]), seen);
        }
        own[lane] = seen.value;
    }
    return beta * group_max<T, G>(own);
}

// The weights of all states, relative to the largest; `energy` gains weights times exponents.
template <typename T, int H, int G>
INLINE T slab_total(const SlabPoint<T, H>& point, const int* tops, int n_tops, int max_active, T beta, T largest,
                    T& energy) {
    PerLane<T, G> own, own_energy;
    EACH_LANE(lane, G) {
        Total<T> seen{beta, largest, T(0), T(0)};
        for (int k = lane; k < n_tops; k += G) {
            SlabTop<T, H> top;
            top.take(point, point.offset, tops[k]);
            top.visit(point.offset, max_active - count_bits(tops[k]), seen);
        }
        own[lane] = seen.weight;
        own_energy[lane] = seen.energy;
    }
    energy += group_sum<T, G>(own_energy);
    return group_sum<T, G>(own);
}

// The same with all moments, each lane's own.
template <typename T, int H, int G>
INLINE void slab_moments(const SlabPoint<T, H>& point, const int* tops, int n_tops, int max_active, T beta, T largest,
                         PerLane<Values<T, slab_values<H>()>, G>& all) {
    constexpr int N = slab_values<H>();
    EACH_LANE(lane, G) {
        T* value = all[lane].value;
        UNROLL for (int k = 0; k < N; ++k) value[k] = T(0);
        if constexpr (Shares<H>::TOP <= 5) {
            if (lane < n_tops) slab_lane<T, H>(point, tops[lane], max_active, beta, largest, value);
        } else {
            for (int k = lane; k < n_tops; k += G) {
                T more[N];
                slab_lane<T, H>(point, tops[k], max_active, beta, largest, more);
                UNROLL for (int i = 0; i < N; ++i) value[i] += more[i];
            }
        }
    }
}

// log Z, and beta <x>.
template <typename T, int G> INLINE void slab_settle(T largest, T total, T sum, T* log_normaliser, T* energy) {
    EACH_LANE(lane, G) if (lane == 0) {
        *log_normaliser = largest + log_of(total);
        *energy = largest + sum / total;
    }
}

enum SlabMode { NORMALISERS = 0, ROWS = 1, STATISTICS = 2 };

// Everything about each row, by a group of lanes; `s` (N, H) is also where it works. `mode` says what is written besides log Z_n and <x>_n: nothing; <s>
// and <s*z> in (N, H) arrays; or `values` of the candidates, and w_n <s> outside of them, and w_n <s*z>.
template <typename T, int H>
ENTRY_AT_LEAST(sizeof(T) == 4 ? 4 : 1)
slab_expectations(const T* linear, const int* candidates, const T* offset, const T* gram, const T* inverse,
                        const T* constant, const T* weights, const int* tops, int n_tops, int n_rows, int n_latents,
                        int max_active, int singletons, int mode, T beta, T* log_normaliser, T* energy, T* values, T* s,
                        T* x) {
    constexpr int G = Shares<H>::LANES, N = slab_values<H>();
    GROUP_SHARED(SlabPoint<T COMMA H>, point, G);
    EACH_GROUP(n, n_rows, G) {
        const T* row = linear + n * n_latents;
        slab_gather<T, H, G>(point, row, candidates + n * H, offset, gram, n_latents);
        T largest = slab_largest<T, H, G>(point, tops, n_tops, max_active, beta), total = T(0), sum = T(0);
        T* singles = s + n * n_latents;
        if (singletons) {
            largest = larger(largest, slab_singletons<T, H, G>(point, row, inverse, constant, beta, n_latents, singles));
            total = slab_weigh_singletons<T, G>(largest, n_latents, singles, sum);
        }
        if (mode == NORMALISERS) {
            total += slab_total<T, H, G>(point, tops, n_tops, max_active, beta, largest, sum);
            slab_settle<T, G>(largest, total, sum, log_normaliser + n, energy + n);
            continue;
        }
        PerLane<Values<T, N>, G> all;
        slab_moments<T, H, G>(point, tops, n_tops, max_active, beta, largest, all);
        sum_and_spread<T, N, G>(all);
        PerLane<T, G> head, second_head;
        EACH_LANE(lane, G) {
            head[lane] = all[lane].value[0];
            second_head[lane] = all[lane].value[1 / G];
        }
        total += from_lane<T, G>(head, 0);
        sum += from_lane<T, G>(second_head, 1 % G);
        const T scale = T(1) / total, weight = mode == STATISTICS ? weights[n] : T(1);
        slab_settle<T, G>(largest, total, sum, log_normaliser + n, energy + n);
        EACH_LANE(lane, G) for (int h = lane; h < n_latents; h += G) {
            const T share = singletons ? weight * scale * singles[h] : T(0);
            singles[h] = share;
            x[n * n_latents + h] = share == T(0) ? T(0) : share * row[h] * inverse[h];
        }
        group_sync<G>();
        EACH_LANE(lane, G) {
            UNROLL for (int i = 0; i < (N + G - 1) / G; ++i) {
                const int k = i * G + lane;
                if (k >= N) continue;
                const T value = all[lane].value[i] * scale;
                if (mode == STATISTICS) values[n * N + k] = value;
                if (k >= 2 && k < 2 + H && mode == ROWS) s[n * n_latents + point.candidates[k - 2]] = value;
                if (k >= 2 + H && k < 2 + 2 * H) x[n * n_latents + point.candidates[k - 2 - H]] = weight * value;
            }
        }
    }
}
