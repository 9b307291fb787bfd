package job

import (
	"slices"
	"strconv"
	"strings"
)

// interval are the completion indexes from first to last.
type interval struct{ first, last int }

// indexes are completion indexes as intervals in rising order that neither overlap nor touch. Their
// number, not that of the indexes, is what memory and time depend on.
type indexes []interval

// parseIndexes reads indexes such as "0,2-4", and ignores those from completions on. What cannot be read
// is left out. The text may be a foreign writer's.
func parseIndexes(text string, completions int) indexes {
	if text == "" {
		return nil
	}
	var parsed indexes
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil || first < 0 || first >= completions {
			continue
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(to); err != nil || last < first {
				continue
			}
			last = min(last, completions-1)
		}
		parsed = append(parsed, interval{first, last})
	}
	slices.SortFunc(parsed, func(a, b interval) int { return a.first - b.first })
	return parsed.merge(nil)
}

// single returns indexes from numbers in rising order.
func single(ordered []int) indexes {
	each := make(indexes, len(ordered))
	for i, index := range ordered {
		each[i] = interval{index, index}
	}
	return each.merge(nil)
}

// merge returns the union.
func (x indexes) merge(with indexes) indexes {
	var union indexes
	add := func(next interval) {
		if n := len(union); n > 0 && next.first <= union[n-1].last+1 {
			union[n-1].last = max(union[n-1].last, next.last)
			return
		}
		union = append(union, next)
	}
	for len(x) > 0 && len(with) > 0 {
		if x[0].first < with[0].first {
			add(x[0])
			x = x[1:]
		} else {
			add(with[0])
			with = with[1:]
		}
	}
	for _, rest := range []indexes{x, with} {
		for _, next := range rest {
			add(next)
		}
	}
	return union
}

// total returns the number of indexes.
func (x indexes) total() int {
	total := 0
	for _, each := range x {
		total += each.last - each.first + 1
	}
	return total
}

// common returns the number of indexes that are in both.
func (x indexes) common(other indexes) int {
	total := 0
	for len(x) > 0 && len(other) > 0 {
		total += max(0, min(x[0].last, other[0].last)-max(x[0].first, other[0].first)+1)
		if x[0].last < other[0].last {
			x = x[1:]
		} else {
			other = other[1:]
		}
	}
	return total
}

// has reports whether an index is among them.
func (x indexes) has(index int) bool {
	at, _ := slices.BinarySearchFunc(x, index, func(each interval, index int) int { return each.last - index })
	return at < len(x) && x[at].first <= index
}

// String writes the indexes as Kubernetes does: two neighbours are "1,2", more are "1-3".
func (x indexes) String() string {
	var text []byte
	for i, each := range x {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(each.first), 10)
		switch each.last - each.first {
		case 0:
			continue
		case 1:
			text = append(text, ',')
		default:
			text = append(text, '-')
		}
		text = strconv.AppendInt(text, int64(each.last), 10)
	}
	return string(text)
}

// gaps returns up to count indexes below completions that are not among x. It looks at no more than count
// indexes and the intervals.
func (x indexes) gaps(count, completions int) []int {
	var free []int
	next := 0
	for _, each := range append(slices.Clone(x), interval{completions, completions}) {
		for ; next < min(each.first, completions) && len(free) < count; next++ {
			free = append(free, next)
		}
		if next = max(next, each.last+1); len(free) >= count || next >= completions {
			break
		}
	}
	return free
}
