// Spike-and-slab latents with independent coefficients: every truncated state of a data point, by Schur complements.
//
//     x(s) = sum_{h in s} a_h - log|det K_ss| / 2 + c_s^T K_ss^-1 c_s / 2,      K = I + G,   c = b + mu
//
// Adding a latent to a state eliminates it from K and c; on the way back an eliminated variable v is, given the rest,
// normal with mean (c_v - sum_i K_iv x_i) / K_vv and variance 1 / K_vv. See numba_cpu/spike_slab_linear.py.
#pragma once

// The candidates' part of a row; in single precision, too, for a first look at which state is likely.
template <typename T, int H> struct SlabValues {
    T linear[H], offset[H], gram[triangle(H)];
    template <typename F> INLINE void set(int i, F c, F a) {
        linear[i] = T(c);
        offset[i] = T(a);
    }
};
template <typename T, int H> struct SlabPoint {
    SlabValues<T, H> exact;
    SlabValues<float, H> rough;
    int candidates[H];
    INLINE const SlabValues<float, H>& roughly() const { return rough; }
};
template <int H> struct SlabPoint<float, H> {
    SlabValues<float, H> exact;
    int candidates[H];
    INLINE const SlabValues<float, H>& roughly() const { return exact; }
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
    INLINE void see(const SlabState<T>& state, bool counts) {
        const T x = state.log_joint();
        value = counts && x > value ? x : value;
    }
};
template <typename T> struct Total {
    T beta, largest, weight, energy;
    INLINE void see(const SlabState<T>& state, bool counts) {
        T more;
        const T w = state.weight(beta, largest, more);
        weight += counts ? w : T(0);
        energy += counts ? more : T(0);
    }
};

// The last few latents are walked without branches: states with too many are computed, and do not count. A lane of the
// group has all states to walk anyway.
constexpr int WITHOUT_BRANCHES = 5;

// All states of the M latents that remain, at most `left` of them on.
template <typename T, int M, int J, typename Visitor>
INLINE void slab_visit(const T* c, const T* K, const T* offset, const SlabState<T>& state, int left, Visitor& visitor) {
    if constexpr (J == 0) visitor.see(state, left >= 0);
    if constexpr (J < M) {
        if (M <= WITHOUT_BRANCHES || left > 0) {
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

    INLINE void take(const SlabValues<T, H>& values, unsigned mask) {
        state = {T(0), T(1)};
        UNROLL for (int i = 0; i < H; ++i) c[i] = values.linear[i];
        UNROLL for (int i = 0; i < triangle(H); ++i) K[i] = values.gram[i];
        UNROLL for (int v = 0; v < TOP; ++v)
            if (mask >> v & 1u) {
                const T root = rsqrt_of(larger(K[at(v, v, H)], T(1))), inverse = root * root, mean = c[v] * inverse;
                state = state.grown(values.offset[v] + T(0.5) * mean * c[v], root);
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

// Factors of a lane's own latents; in double precision they wait in shared memory, as far as it goes.
template <typename T, int H> struct SlabWaiting {
    static constexpr int COUNT = at(Shares<H>::TOP, Shares<H>::TOP, H);
    static constexpr bool SHARED = sizeof(T) == 8 && COUNT > 0 && COUNT <= 40;
};

template <typename T, int H>
INLINE void slab_lane(SlabTop<T, H>& top, const SlabValues<T, H>& values, unsigned mask, int max_active, T beta,
                      T largest, T* waiting, T* value) {
    constexpr int TOP = Shares<H>::TOP, M = Shares<H>::M;
    typedef SlabWaiting<T, H> Waiting;
    if constexpr (Waiting::SHARED) {
        UNROLL for (int i = 0; i < Waiting::COUNT; ++i) waiting[i * LANE_STRIDE] = top.K[i];
        FORGET_COPIES;
    }
    SlabSums<T, M> below;
    slab_collect<T, M, 0>(top.c + TOP, top.K + at(TOP, TOP, H), values.offset + TOP, top.state,
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
        if constexpr (Waiting::SHARED) {
            FORGET_COPIES;
            UNROLL for (int i = v; i < H; ++i) top.K[at(v, i, H)] = waiting[at(v, i, H) * LANE_STRIDE];
        }
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
INLINE void slab_gather(SlabPoint<T, H>& point, const T* linear, const T* shift, const int* candidates, const T* offset,
                        const T* gram, int n_latents) {
    group_sync<G>();
    EACH_LANE(lane, G) for (int i = lane; i < H; i += G) {
        const int h = candidates[i];
        point.candidates[i] = h;
        point.exact.set(i, linear[h] + shift[h], offset[h]);
        if constexpr (sizeof(T) == 8) point.rough.set(i, linear[h] + shift[h], offset[h]);
    }
    group_sync<G>();
    EACH_LANE(lane, G) for (int p = lane; p < triangle(H); p += G) {
        int i = 0, rest = p;
        for (; rest >= H - i; ++i) rest -= H - i;
        const T value = gram[(long long)point.candidates[i] * n_latents + point.candidates[i + rest]];
        point.exact.gram[p] = value;
        if constexpr (sizeof(T) == 8) point.rough.gram[p] = (float)value;
    }
    group_sync<G>();
}

// The latents of a row, each by itself. Their log joints are computed anew each time: writing them down takes longer.
template <typename T> struct SlabSingles {
    const T *linear, *shift, *inverse, *constant;
    T beta;
    int n_latents;
    INLINE T tempered(int h, T& c) const {
        c = linear[h] + shift[h];
        return beta * (constant[h] + T(0.5) * c * c * inverse[h]);
    }
};

// Each latent that is a lane's own, and whether it is a candidate, of which 32 fit into a word.
template <typename T, int H, int G, typename Look>
INLINE void each_single(const SlabPoint<T, H>& point, int n_latents, int lane, Look look) {
    for (int first = lane; first < n_latents; first += 32 * G) {
        unsigned taken = 0u;
        UNROLL for (int i = 0; i < H; ++i) {
            const unsigned place = (unsigned)(point.candidates[i] - first);
            if (place % G == 0u && place / G < 32u) taken |= 1u << place / G;
        }
        const int last = n_latents - first < 32 * G ? n_latents : first + 32 * G;
        for (int h = first; h < last; h += G, taken >>= 1) look(h, taken & 1u);
    }
}

// beta times the largest log joint of a single latent.
template <typename T, int H, int G>
INLINE T slab_largest_single(const SlabPoint<T, H>& point, const SlabSingles<T>& singles) {
    PerLane<T, G> own;
    EACH_LANE(lane, G) {
        T top = Limits<T>::off, c;
        for (int h = lane; h < singles.n_latents; h += G) top = larger(top, singles.tempered(h, c));
        own[lane] = top;
    }
    return group_max<T, G>(own);
}

// The weights of all singles outside of the candidates, relative to the largest, and of weights times exponents; those
// below the cut are left out.
template <typename T, int H, int G>
INLINE T slab_weigh_singles(const SlabPoint<T, H>& point, const SlabSingles<T>& singles, T largest, T cut, T& energy) {
    PerLane<T, G> own, own_energy;
    EACH_LANE(lane, G) {
        T total = T(0), sum = T(0);
        each_single<T, H, G>(point, singles.n_latents, lane, [&](int h, bool taken) {
            T c;
            const T below = singles.tempered(h, c) - largest;
            if (!taken && below > cut) {
                const T w = exp_of(below);
                total += w;
                sum += w * below;
            }
        });
        own[lane] = total;
        own_energy[lane] = sum;
    }
    energy += group_sum<T, G>(own_energy);
    return group_sum<T, G>(own);
}

// s <- scale times the same weights, and x <- s z; x may lie where the row is.
template <typename T, int H, int G>
INLINE void slab_write_singles(const SlabPoint<T, H>& point, const SlabSingles<T>& singles, T largest, T cut, T scale,
                               T* s, T* x) {
    EACH_LANE(lane, G) each_single<T, H, G>(point, singles.n_latents, lane, [&](int h, bool taken) {
        T c;
        const T below = singles.tempered(h, c) - largest;
        const bool counts = !taken && below > cut;
        const T share = counts ? scale * exp_of(below) : T(0);
        s[h] = share;
        x[h] = counts ? share * c * singles.inverse[h] : T(0);
    });
    group_sync<G>();
}

// What a visitor sees of all states that a lane has.
template <typename T, int H, int G, typename Visitor>
INLINE void slab_visit_all(const SlabValues<T, H>& values, const int* tops, int n_tops, int max_active, int lane,
                           Visitor& visitor) {
    for (int k = lane; k < n_tops; k += G) {
        SlabTop<T, H> top;
        top.take(values, tops[k]);
        top.visit(values.offset, max_active - count_bits(tops[k]), visitor);
    }
}

// beta times the largest log joint, or what is near enough to it: weights are relative to it, so that none overflows.
template <typename T, int H, int G>
INLINE T slab_largest(const SlabPoint<T, H>& point, const int* tops, int n_tops, int max_active, T beta) {
    PerLane<float, G> rough;
    EACH_LANE(lane, G) {
        Largest<float> seen{0.0f};
        slab_visit_all<float, H, G>(point.roughly(), tops, n_tops, max_active, lane, seen);
        rough[lane] = seen.value;
    }
    const float roughly = group_max<float, G>(rough);
    if (sizeof(T) == sizeof(float) || roughly < MOST_ROUGH) return beta * T(roughly);
    PerLane<T, G> own;
    EACH_LANE(lane, G) {
        Largest<T> seen{T(0)};
        slab_visit_all<T, H, G>(point.exact, tops, n_tops, max_active, lane, seen);
        own[lane] = seen.value;
    }
    return beta * group_max<T, G>(own);
}

// No state has more than beta times this: c_s^T K_ss^-1 c_s grows with s, and no pivot is below one.
template <typename T, int H> INLINE T slab_bound(const SlabValues<T, H>& values) {
    T c[H], K[triangle(H)], bound = T(0);
    UNROLL for (int i = 0; i < H; ++i) c[i] = values.linear[i];
    UNROLL for (int i = 0; i < triangle(H); ++i) K[i] = values.gram[i];
    UNROLL for (int v = 0; v < H; ++v) {
        const T root = rsqrt_of(larger(K[at(v, v, H)], T(1))), inverse = root * root, mean = c[v] * inverse;
        bound += larger(values.offset[v], T(0)) + T(0.5) * mean * c[v];
        UNROLL for (int i = v + 1; i < H; ++i) {
            const T factor = K[at(v, i, H)] * inverse;
            c[i] -= K[at(v, i, H)] * mean;
            UNROLL for (int k = i; k < H; ++k) K[at(i, k, H)] -= factor * K[at(v, k, H)];
        }
    }
    return bound;
}

// The weights of all states, relative to the largest; `energy` gains weights times exponents.
template <typename T, int H, int G>
INLINE T slab_total(const SlabPoint<T, H>& point, const int* tops, int n_tops, int max_active, T beta, T largest,
                    T& energy) {
    PerLane<T, G> own, own_energy;
    EACH_LANE(lane, G) {
        Total<T> seen{beta, largest, T(0), T(0)};
        slab_visit_all<T, H, G>(point.exact, tops, n_tops, max_active, lane, seen);
        own[lane] = seen.weight;
        own_energy[lane] = seen.energy;
    }
    energy += group_sum<T, G>(own_energy);
    return group_sum<T, G>(own);
}

// The same with all moments, each lane's own.
template <typename T, int H, int G>
INLINE void slab_moments(const SlabPoint<T, H>& point, const int* tops, int n_tops, int max_active, T beta, T largest,
                         T* waiting, PerLane<Values<T, slab_values<H>()>, G>& all) {
    constexpr int N = slab_values<H>();
    EACH_LANE(lane, G) {
        T* value = all[lane].value;
        UNROLL for (int k = 0; k < N; ++k) value[k] = T(0);
        SlabTop<T, H> top;
        if constexpr (Shares<H>::TOP <= 5) {
            if (lane < n_tops) {
                top.take(point.exact, tops[lane]);
                slab_lane<T, H>(top, point.exact, tops[lane], max_active, beta, largest, waiting, value);
            }
        } else {
            for (int k = lane; k < n_tops; k += G) {
                T more[N];
                top.take(point.exact, tops[k]);
                slab_lane<T, H>(top, point.exact, tops[k], max_active, beta, largest, waiting, more);
                UNROLL for (int i = 0; i < N; ++i) value[i] += more[i];
            }
        }
    }
}

// Sums over the lanes, of which those of the first two values are added to what singles have.
template <typename T, int H, int G>
INLINE void slab_sum_up(PerLane<Values<T, slab_values<H>()>, G>& all, T& total, T& sum) {
    sum_and_spread<T, slab_values<H>(), G>(all);
    PerLane<T, G> head, second_head;
    EACH_LANE(lane, G) {
        head[lane] = all[lane].value[0];
        second_head[lane] = all[lane].value[1 / G];
    }
    total += from_lane<T, G>(head, 0);
    sum += from_lane<T, G>(second_head, 1 % G);
}

// log Z, and beta <x>.
template <typename T, int G> INLINE void slab_settle(T largest, T total, T sum, T* log_normaliser, T* energy) {
    EACH_LANE(lane, G) if (lane == 0) {
        *log_normaliser = largest + log_of(total);
        *energy = largest + sum / total;
    }
}

enum SlabMode { NORMALISERS = 0, ROWS = 1, STATISTICS = 2 };

// Everything about each row, by a group of lanes. `mode` says what is written besides log Z_n and <x>_n: nothing; <s> and
// <s*z> in (N, H) arrays; or `values` of the candidates, and w_n <s> outside of them, and w_n <s*z>. Rows of W y lack the
// shift, which is mu.
template <typename T, int H>
ENTRY_AT_LEAST(sizeof(T) == 4 ? 4 : 3)
slab_expectations(const T* linear, const T* shift, const int* candidates, const T* offset, const T* gram,
                  const T* inverse, const T* constant, const T* weights, const int* tops, int n_tops, int n_rows,
                  int n_latents, int max_active, int singletons, int mode, T beta, T* log_normaliser, T* energy,
                  T* values, T* s, T* x) {
    constexpr int G = Shares<H>::LANES, N = slab_values<H>();
    GROUP_SHARED(SlabPoint<T COMMA H>, point, G);
    LANE_SHARED(T, waiting, (SlabWaiting<T COMMA H>::SHARED ? SlabWaiting<T COMMA H>::COUNT : 1));
    EACH_GROUP(n, n_rows, G) {
        const SlabSingles<T> singles{linear + n * n_latents, shift, inverse, constant, beta, n_latents};
        slab_gather<T, H, G>(point, singles.linear, shift, candidates + n * H, offset, gram, n_latents);
        const T largest_single = singletons ? slab_largest_single<T, H, G>(point, singles) : Limits<T>::off;
        T largest = T(0), cut = T(0), total = T(0), sum = T(0);
        PerLane<Values<T, N>, G> all;
        // Weights relative to a bound are precise, unless the largest state is far below it, as where few of the
        // candidates may be on; the largest itself takes a walk of its own.
        for (int turn = sizeof(T) == 8 || max_active + 2 >= H ? 0 : 1; turn < 2; ++turn) {
            largest = turn == 0 ? beta * slab_bound<T, H>(point.exact)
                                : slab_largest<T, H, G>(point, tops, n_tops, max_active, beta);
            largest = larger(largest, largest_single);
            total = sum = T(0);
            if (mode == NORMALISERS) {
                total = slab_total<T, H, G>(point, tops, n_tops, max_active, beta, largest, sum);
            } else {
                slab_moments<T, H, G>(point, tops, n_tops, max_active, beta, largest, waiting, all);
                slab_sum_up<T, H, G>(all, total, sum);
            }
            cut = singletons ? log_of(total) + Limits<T>::negligible : -Limits<T>::off;
            if (singletons) total += slab_weigh_singles<T, H, G>(point, singles, largest, cut, sum);
            if (total > Limits<T>::least && total < Limits<T>::most) break;
        }
        slab_settle<T, G>(largest, total, sum, log_normaliser + n, energy + n);
        if (mode == NORMALISERS) continue;
        const T scale = T(1) / total, weight = mode == STATISTICS ? weights[n] : T(1);
        T *s_row = s + n * n_latents, *x_row = x + n * n_latents;
        slab_write_singles<T, H, G>(point, singles, largest, cut, weight * scale, s_row, x_row);
        EACH_LANE(lane, G) {
            UNROLL for (int i = 0; i < (N + G - 1) / G; ++i) {
                const int k = i * G + lane;
                if (k >= N) continue;
                const T value = all[lane].value[i] * scale;
                if (mode == STATISTICS) values[n * N + k] = value;
                if (k >= 2 && k < 2 + H && mode == ROWS) s_row[point.candidates[k - 2]] = value;
                if (k >= 2 + H && k < 2 + 2 * H) x_row[point.candidates[k - 2 - H]] = weight * value;
            }
        }
    }
}
