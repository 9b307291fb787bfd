package horizontalpodautoscaler

import (
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/types"
)

// maxRemembered bounds the recommendations, and the changes in each direction, that are kept of one
// autoscaler. With the default period those of 17 hours fit; windows and periods are at most one hour long.
const maxRemembered = 4096

// moment is a number of replicas at a time: what was recommended then, or by how many there were more or
// fewer.
type moment struct {
	replicas int32
	at       time.Time
}

// history is what the controller recommended and did for one autoscaler. It belongs to the one reconcile of
// its key that runs.
type history struct {
	uid types.UID
	// recommended are the recommendations before they were limited; up and down are the changes.
	recommended, up, down []moment
}

// first notes the number of replicas that was found first, as if it had been recommended.
func (h *history) first(replicas int32, now time.Time) {
	if len(h.recommended) == 0 {
		h.recommended = []moment{{replicas, now}}
	}
}

// recommend notes a recommendation, and forgets those that are older than a window.
func (h *history) recommend(replicas int32, now time.Time, window time.Duration) {
	h.recommended = remember(h.recommended, moment{replicas, now}, window)
}

// rescaled notes a change, as far as the policies of a behavior ask for it.
func (h *history) rescaled(behavior *autoscalingv2.HorizontalPodAutoscalerBehavior, from, to int32, now time.Time) {
	switch {
	case behavior == nil:
	case to > from:
		h.up = remember(h.up, moment{saturate(int64(to) - int64(from)), now}, longestPeriod(behavior.ScaleUp))
	default:
		h.down = remember(h.down, moment{saturate(int64(from) - int64(to)), now}, longestPeriod(behavior.ScaleDown))
	}
}

// remember appends a moment, and drops those that are older than a window, or too many.
func remember(list []moment, one moment, window time.Duration) []moment {
	since, from := one.at.Add(-window), max(len(list)+1-maxRemembered, 0)
	for from < len(list) && list[from].at.Before(since) {
		from++
	}
	if from > 0 {
		list = append(list[:0], list[from:]...)
	}
	return append(list, one)
}

// changedWithin returns by how many replicas there were more, or fewer, within a time.
func changedWithin(list []moment, now time.Time, period time.Duration) (total int64) {
	since := now.Add(-period)
	for _, one := range list {
		if one.at.After(since) {
			total += int64(one.replicas)
		}
	}
	return total
}

// longestPeriod returns the longest period of rules' policies.
func longestPeriod(rules *autoscalingv2.HPAScalingRules) (longest time.Duration) {
	if rules == nil {
		return 0
	}
	for i := range rules.Policies {
		longest = max(longest, seconds(rules.Policies[i].PeriodSeconds))
	}
	return longest
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// histories are those of all autoscalers, by their keys.
type histories struct {
	mu    sync.Mutex
	byKey map[string]*history
}

// of returns the history of an autoscaler. One that takes the name of another has its own.
func (h *histories) of(key string, uid types.UID) *history {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.byKey[key]
	if known == nil || known.uid != uid {
		if h.byKey == nil {
			h.byKey = map[string]*history{}
		}
		known = &history{uid: uid}
		h.byKey[key] = known
	}
	return known
}

func (h *histories) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byKey)
}

// remove forgets an autoscaler, and returns how many are left.
func (h *histories) remove(key string) (left int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.byKey, key)
	return len(h.byKey)
}

func (h *histories) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.byKey = nil
}
