package batch

import (
	"fmt"
	"strconv"
	"strings"
)

// interval is the range of indexes from first to last.
type interval struct{ first, last int32 }

// intervals are ranges of indexes in ascending order.
type intervals []interval

func (list intervals) total() int32 {
	var total int32
	for _, i := range list {
		total += i.last - i.first + 1
	}
	return total
}

// parseIndexes parses indexes in the compact form of a job's status, "1,3-5,7". They must ascend
// and be below completions.
func parseIndexes(text string, completions int32) (intervals, error) {
	if text == "" {
		return nil, nil
	}
	var list intervals
	for part := range strings.SplitSeq(text, ",") {
		i, err := parseInterval(part, completions)
		if err != nil {
			return nil, err
		}
		if n := len(list); n > 0 && list[n-1].last >= i.first {
			return nil, fmt.Errorf("non-increasing order, previous: %d, current: %d", list[n-1].last, i.first)
		}
		list = append(list, i)
	}
	return list, nil
}

func parseInterval(text string, completions int32) (interval, error) {
	parts := strings.Split(text, "-")
	if len(parts) > 2 {
		return interval{}, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", text)
	}
	first, err := parseIndex(parts[0], completions)
	if err != nil || len(parts) == 1 {
		return interval{first, first}, err
	}
	last, err := parseIndex(parts[1], completions)
	if err != nil {
		return interval{}, err
	}
	if first >= last {
		return interval{}, fmt.Errorf("non-increasing order, previous: %d, current: %d", first, last)
	}
	return interval{first, last}, nil
}

func parseIndex(text string, completions int32) (int32, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("cannot convert string to integer for index: %q", text)
	}
	if n >= int(completions) {
		return 0, fmt.Errorf("too large index: %q", text)
	}
	return int32(n), nil
}
