// Selection scores, and the best candidates by them. See numba_cpu/selection.py.
#pragma once

// Scores count as equal when they round to the same float: of equals the first wins. A larger key is a better latent.
INLINE unsigned long long key_of(float score, int h) {
#ifdef __CUDACC__
    const unsigned bits = __float_as_uint(score);
#else
    union { float number; unsigned bits; } both = {score};
    const unsigned bits = both.bits;
#endif
    const unsigned rising = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (unsigned long long)rising << 32 | (0xffffffffu - (unsigned)h);
}

template <typename T> struct ShiftedScore {
    const T *scores, *shift, *scale;
    INLINE float operator()(int h) const { return (float)((scores[h] - shift[h]) * scale[h]); }
};
template <typename T> struct PlainScore {
    const T* scores;
    INLINE float operator()(int h) const { return (float)scores[h]; }
};
template <typename T> struct SingletonScore {
    const T *linear, *shift, *inverse, *constant;
    INLINE float operator()(int h) const {
        const T c = linear[h] + shift[h];
        return (float)(constant[h] + T(0.5) * c * c * inverse[h]);
    }
};

// The two largest keys below `last` of every 32nd column; none is 0.
template <typename Score>
INLINE void two_best(const Score& score, int lane, int n_columns, unsigned long long last, unsigned long long& best,
                     unsigned long long& second) {
    best = second = 0;
    for (int h = lane; h < n_columns; h += 32) {
        const unsigned long long key = key_of(score(h), h);
        if (key >= last || key < second) continue;
        second = key > best ? best : key;
        best = key > best ? key : best;
    }
}

// The columns of the largest scores of a row, in rising order, at most as many as there are lanes. A lane looks through
// its columns again only once two of them were chosen.
template <typename Score> INLINE void choose(const Score& score, int n_columns, int n_candidates, int* chosen) {
    constexpr int G = 32;
    typedef unsigned long long Key;
    PerLane<Key, G> best, second;
    PerLane<int, G> mine, rank;
    Key last = ~0ull;
    EACH_LANE(lane, G) {
        best[lane] = last;
        second[lane] = 0;
        mine[lane] = rank[lane] = 0;
    }
    for (int k = 0; k < n_candidates; ++k) {
        EACH_LANE(lane, G) if (best[lane] >= last) {
            if (second[lane] == 0) {  // in one place only: scores that are rounded in another way might come twice
                two_best(score, lane, n_columns, last, best[lane], second[lane]);
            } else {
                best[lane] = second[lane];
                second[lane] = 0;
            }
        }
        last = group_max<Key, G>(best);
        EACH_LANE(lane, G) if (lane == k) mine[lane] = (int)(0xffffffffu - (unsigned)(last & 0xffffffffu));
    }
    for (int k = 0; k < n_candidates; ++k) {
        const int other = from_lane<int, G>(mine, k);
        EACH_LANE(lane, G) rank[lane] += other < mine[lane];
    }
    EACH_LANE(lane, G) if (lane < n_candidates) chosen[rank[lane]] = mine[lane];
}

template <typename T>
ENTRY top_candidates(const T* scores, const T* shift, const T* scale, int n_rows, int n_columns, int n_candidates,
                     int* chosen) {
    EACH_GROUP(n, n_rows, 32) {
        const ShiftedScore<T> score{scores + n * n_columns, shift, scale};
        choose(score, n_columns, n_candidates, chosen + n * n_candidates);
    }
}

template <typename T>
ENTRY top_singletons(const T* linear, const T* shift, const T* inverse, const T* constant, int n_rows, int n_columns,
                     int n_candidates, int* chosen) {
    EACH_GROUP(n, n_rows, 32) {
        const SingletonScore<T> score{linear + n * n_columns, shift, inverse, constant};
        choose(score, n_columns, n_candidates, chosen + n * n_candidates);
    }
}

// log pi_h - sum_d max(W_hd - y_d, 0)^2 / 2, four rows at a time; components (D, H) and rows in units of the noise.
template <typename T>
ENTRY squared_excess_scores(const T* Y, const T* components, const T* log_activation, int n_rows, int n_features,
                            int n_latents, T* scores) {
    constexpr int AT_ONCE = 4;
    EACH_THREAD(task, (long long)((n_rows + AT_ONCE - 1) / AT_ONCE) * n_latents) {
        const int h = (int)(task % n_latents);
        const long long first = task / n_latents * AT_ONCE;
        const T* y[AT_ONCE];
        T total[AT_ONCE];
        UNROLL for (int r = 0; r < AT_ONCE; ++r) {
            y[r] = Y + (first + r < n_rows ? first + r : n_rows - 1) * n_features;
            total[r] = T(0);
        }
        for (int d = 0; d < n_features; ++d) {
            const T w = components[(long long)d * n_latents + h];
            UNROLL for (int r = 0; r < AT_ONCE; ++r) {
                const T excess = larger(w - y[r][d], T(0));
                total[r] += excess * excess;
            }
        }
        UNROLL for (int r = 0; r < AT_ONCE; ++r)
            if (first + r < n_rows) scores[(first + r) * n_latents + h] = log_activation[h] - T(0.5) * total[r];
    }
}

// Spike-and-slab latents one by one, each by what it adds to log p(y | s) beside those before it: choosing a latent
// eliminates it from K and c for all others. A slot's work is c, K's diagonal, what is free, and Cholesky's columns.
template <typename T>
ENTRY greedy_candidates(const T* linear, const T* inverse, const T* slab_mean, const T* gram, int n_rows, int n_latents,
                        int n_candidates, int n_slots, T* work, int* chosen) {
    constexpr int G = 32;
    typedef unsigned long long Key;
    EACH_GROUP(slot, n_slots, G) {
        T *c = work + slot * (3 + n_candidates) * n_latents, *diagonal = c + n_latents, *open = diagonal + n_latents;
        T* factor = open + n_latents;
        for (long long n = slot; n < n_rows; n += n_slots) {
            EACH_LANE(lane, G) for (int h = lane; h < n_latents; h += G) {
                c[h] = linear[n * n_latents + h] + slab_mean[h];
                diagonal[h] = T(1) / inverse[h];
                open[h] = T(-0.5) * slab_mean[h] * slab_mean[h];
            }
            group_sync<G>();
            PerLane<int, G> mine, rank;
            EACH_LANE(lane, G) mine[lane] = rank[lane] = 0;
            for (int k = 0; k < n_candidates; ++k) {
                PerLane<Key, G> best;
                EACH_LANE(lane, G) {
                    best[lane] = 0;
                    for (int h = lane; h < n_latents; h += G) {
                        const T score = open[h] + T(0.5) * (c[h] * c[h] / diagonal[h] - log_of(diagonal[h]));
                        const Key key = key_of((float)score, h);
                        if (key > best[lane]) best[lane] = key;
                    }
                }
                const int g = (int)(0xffffffffu - (unsigned)(group_max<Key, G>(best) & 0xffffffffu));
                const T scale = rsqrt_of(diagonal[g]), gain = scale * c[g];
                T shares[G];
                for (int j = 0; j < k; ++j) shares[j] = factor[j * n_latents + g];
                group_sync<G>();
                EACH_LANE(lane, G) {
                    if (lane == k) mine[lane] = g;
                    for (int h = lane; h < n_latents; h += G) {
                        T column = gram[(long long)g * n_latents + h];
                        for (int j = 0; j < k; ++j) column -= shares[j] * factor[j * n_latents + h];
                        column *= scale;
                        factor[k * n_latents + h] = column;
                        c[h] -= gain * column;
                        diagonal[h] = larger(diagonal[h] - column * column, T(1));
                        if (h == g) open[h] = Limits<T>::off;
                    }
                }
                group_sync<G>();
            }
            for (int k = 0; k < n_candidates; ++k) {
                const int other = from_lane<int, G>(mine, k);
                EACH_LANE(lane, G) rank[lane] += other < mine[lane];
            }
            EACH_LANE(lane, G) if (lane < n_candidates) chosen[n * n_candidates + rank[lane]] = mine[lane];
        }
    }
}

// What the lane of latent g has of it, for all lanes.
template <typename T, int TILES> INLINE T of_latent(PerLane<Values<T, TILES>, 32>& values, int g) {
    PerLane<T, 32> own;
    EACH_LANE(lane, 32) {
        own[lane] = T(0);
        UNROLL for (int t = 0; t < TILES; ++t)
            if (t == g / 32) own[lane] = values[lane].value[t];
    }
    return from_lane<T, 32>(own, g % 32);
}

// The same of at most 32 TILES latents, whose c and diagonal lie in registers; a slot's work are Cholesky's columns.
template <typename T, int TILES>
ENTRY greedy_candidates_of_few(const T* linear, const T* inverse, const T* slab_mean, const T* gram, int n_rows,
                               int n_latents, int n_candidates, int n_slots, T* work, int* chosen) {
    constexpr int G = 32;
    typedef unsigned long long Key;
    EACH_GROUP(slot, n_slots, G) {
        T* factor = work + slot * n_candidates * n_latents;
        for (long long n = slot; n < n_rows; n += n_slots) {
            PerLane<Values<T, TILES>, G> c, diagonal, column;
            PerLane<unsigned, G> open;
            PerLane<int, G> mine, rank;
            EACH_LANE(lane, G) {
                mine[lane] = rank[lane] = 0;
                open[lane] = 0u;
                UNROLL for (int t = 0; t < TILES; ++t) {
                    const int h = t * G + lane;
                    if (h < n_latents) open[lane] |= 1u << t;
                    c[lane].value[t] = h < n_latents ? linear[n * n_latents + h] + slab_mean[h] : T(0);
                    diagonal[lane].value[t] = h < n_latents ? T(1) / inverse[h] : T(1);
                }
            }
            for (int k = 0; k < n_candidates; ++k) {
                PerLane<Key, G> best;
                EACH_LANE(lane, G) {
                    best[lane] = 0;
                    UNROLL for (int t = 0; t < TILES; ++t) {
                        const int h = t * G + lane;
                        const T root = rsqrt_of(diagonal[lane].value[t]), scaled = c[lane].value[t] * root;
                        const T mean = h < n_latents ? slab_mean[h] : T(0);
                        const T score = T(0.5) * (scaled * scaled - log_of(diagonal[lane].value[t]) - mean * mean);
                        const Key key = open[lane] >> t & 1u ? key_of((float)score, h) : 0;
                        if (key > best[lane]) best[lane] = key;
                    }
                }
                const int g = (int)(0xffffffffu - (unsigned)(group_max<Key, G>(best) & 0xffffffffu));
                const T scale = rsqrt_of(of_latent<T, TILES>(diagonal, g)), gain = scale * of_latent<T, TILES>(c, g);
                PerLane<T, G> shares;
                EACH_LANE(lane, G) {
                    if (lane == k) mine[lane] = g;
                    if (g % G == lane) open[lane] &= ~(1u << g / G);
                    shares[lane] = lane < k ? factor[lane * n_latents + g] : T(0);
                    UNROLL for (int t = 0; t < TILES; ++t) {
                        const int h = t * G + lane;
                        column[lane].value[t] = h < n_latents ? gram[(long long)g * n_latents + h] : T(0);
                    }
                }
                for (int j = 0; j < k; ++j) {
                    const T share = from_lane<T, G>(shares, j);
                    EACH_LANE(lane, G) UNROLL for (int t = 0; t < TILES; ++t) {
                        const int h = t * G + lane;
                        if (h < n_latents) column[lane].value[t] -= share * factor[j * n_latents + h];
                    }
                }
                EACH_LANE(lane, G) UNROLL for (int t = 0; t < TILES; ++t) {
                    const int h = t * G + lane;
                    const T value = column[lane].value[t] * scale;
                    if (h < n_latents) factor[k * n_latents + h] = value;
                    c[lane].value[t] -= gain * value;
                    diagonal[lane].value[t] = larger(diagonal[lane].value[t] - value * value, T(1));
                }
                group_sync<G>();
            }
            for (int k = 0; k < n_candidates; ++k) {
                const int other = from_lane<int, G>(mine, k);
                EACH_LANE(lane, G) rank[lane] += other < mine[lane];
            }
            EACH_LANE(lane, G) if (lane < n_candidates) chosen[n * n_candidates + rank[lane]] = mine[lane];
        }
    }
}

// Binary latents that add up: a state grows as long as its log joint rises; gain <- what each latent then adds to it.
// Scores of its latents become infinite. Returns how many they are.
template <typename T>
INLINE int grow_state(const T* gram, int n_latents, int n_candidates, T* gain, T* score, int* state) {
    constexpr int G = 32;
    typedef unsigned long long Key;
    int size = 0;
    for (; size < n_candidates; ++size) {
        PerLane<Key, G> best;
        EACH_LANE(lane, G) {
            best[lane] = 0;
            for (int h = lane; h < n_latents; h += G) {
                const Key key = key_of((float)gain[h], h);
                if (score[h] < T(0) && (float)gain[h] > 0.0f && key > best[lane]) best[lane] = key;
            }
        }
        const Key largest = group_max<Key, G>(best);
        if (largest == 0) break;
        const int g = state[size] = (int)(0xffffffffu - (unsigned)(largest & 0xffffffffu));
        group_sync<G>();
        EACH_LANE(lane, G) for (int h = lane; h < n_latents; h += G) {
            gain[h] -= gram[(long long)g * n_latents + h];
            if (h == g) score[h] = -Limits<T>::off;
        }
        group_sync<G>();
    }
    return size;
}

// The latents of such a state, then those that add most to it, or gain most in the place of one of its latents.
template <typename T>
ENTRY greedy_binary_candidates(const T* linear, const T* gram, int n_rows, int n_latents, int n_candidates, int n_slots,
                               T* work, int* chosen) {
    constexpr int G = 32;
    EACH_GROUP(slot, n_slots, G) {
        T *gain = work + slot * 2 * n_latents, *score = gain + n_latents;
        for (long long n = slot; n < n_rows; n += n_slots) {
            EACH_LANE(lane, G) for (int h = lane; h < n_latents; h += G) {
                gain[h] = linear[n * n_latents + h];
                score[h] = Limits<T>::off;
            }
            group_sync<G>();
            int state[G];
            const int size = grow_state(gram, n_latents, n_candidates, gain, score, state);
            EACH_LANE(lane, G) for (int h = lane; h < n_latents; h += G) {
                T best = larger(score[h], gain[h]);
                for (int i = 0; i < size; ++i) {
                    const T* column = gram + (long long)state[i] * n_latents;
                    best = larger(best, gain[h] + column[h] - (gain[state[i]] + column[state[i]]));
                }
                score[h] = best;
            }
            group_sync<G>();
            choose(PlainScore<T>{score}, n_latents, n_candidates, chosen + n * n_candidates);
            group_sync<G>();
        }
    }
}
