package cron

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// fields is how many fields a schedule has.
const fields = 5

// bounds are the numbers that a field may hold, and names for some of them.
type bounds struct {
	low, high int
	names     []string // of low and those that follow
}

// Parse reads a schedule.
func Parse(spec string) (Schedule, error) {
	if spec == "" {
		return Schedule{}, errors.New("empty spec string")
	}
	zone, rest, err := cutZone(spec)
	if err != nil {
		return Schedule{}, err
	}
	var s Schedule
	if strings.HasPrefix(rest, "@") {
		s, err = parseDescriptor(rest)
	} else {
		s, err = parseFields(rest)
	}
	s.zone = zone
	if err != nil {
		return Schedule{}, err
	}
	return s, nil
}

// cutZone takes the time zone from before a schedule.
func cutZone(spec string) (*time.Location, string, error) {
	if !strings.HasPrefix(spec, "TZ=") && !strings.HasPrefix(spec, "CRON_TZ=") {
		return nil, spec, nil
	}
	assignment, rest, _ := strings.Cut(spec, " ")
	_, name, _ := strings.Cut(assignment, "=")
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, "", fmt.Errorf("provided bad location %s: %w", name, err)
	}
	return zone, strings.TrimSpace(rest), nil
}

func parseFields(spec string) (Schedule, error) {
	var s Schedule
	words := strings.Fields(spec)
	if len(words) != fields {
		return s, fmt.Errorf("expected exactly %d fields, found %d: %s", fields, len(words), words)
	}
	for i, part := range []struct {
		to *field
		bounds
	}{
		{&s.minutes, bounds{0, 59, nil}},
		{&s.hours, bounds{0, 23, nil}},
		{&s.days, bounds{1, 31, nil}},
		{&s.months, bounds{1, 12, strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")}},
		{&s.weekdays, bounds{0, 6, strings.Fields("sun mon tue wed thu fri sat")}},
	} {
		var err error
		if *part.to, err = part.list(words[i]); err != nil {
			return Schedule{}, err
		}
	}
	return s, nil
}

// parseDescriptor reads a schedule that begins with an at sign.
func parseDescriptor(word string) (Schedule, error) {
	switch word {
	case "@yearly", "@annually":
		return parseFields("0 0 1 1 *")
	case "@monthly":
		return parseFields("0 0 1 * *")
	case "@weekly":
		return parseFields("0 0 * * 0")
	case "@daily", "@midnight":
		return parseFields("0 0 * * *")
	case "@hourly":
		return parseFields("0 * * * *")
	}
	text, ok := strings.CutPrefix(word, "@every ")
	if !ok {
		return Schedule{}, fmt.Errorf("unrecognized descriptor: %s", word)
	}
	every, err := time.ParseDuration(text)
	if err != nil {
		return Schedule{}, fmt.Errorf("failed to parse duration %s: %w", word, err)
	}
	return Schedule{every: max(every.Truncate(time.Second), time.Second)}, nil
}

// list reads elements that are separated by commas; empty ones say nothing.
func (b bounds) list(text string) (field, error) {
	var all field
	for element := range strings.SplitSeq(text, ",") {
		if element == "" {
			continue
		}
		f, err := b.element(element)
		if err != nil {
			return field{}, err
		}
		all.bits |= f.bits
		all.star = all.star || f.star
	}
	if all.bits == 0 {
		return field{}, fmt.Errorf("no values in list: %s", text)
	}
	return all, nil
}

// element reads a number, a range or a star, with or without a step.
func (b bounds) element(text string) (field, error) {
	span, stepText, stepped := strings.Cut(text, "/")
	if strings.Contains(stepText, "/") {
		return field{}, fmt.Errorf("too many slashes: %s", text)
	}
	first, last, ranged := strings.Cut(span, "-")
	low, high, star := b.low, b.high, first == "*" || first == "?"
	switch {
	case strings.Contains(last, "-") || star && ranged:
		return field{}, fmt.Errorf("too many hyphens: %s", text)
	case !star:
		var err error
		if low, err = b.number(first); err != nil {
			return field{}, err
		}
		switch {
		case ranged:
			if high, err = b.number(last); err != nil {
				return field{}, err
			}
		case !stepped: // A single number with a step goes on to the end.
			high = low
		}
	}
	step := 1
	if stepped {
		var err error
		if step, err = integer(stepText); err != nil {
			return field{}, err
		}
	}
	switch {
	case low < b.low:
		return field{}, fmt.Errorf("beginning of range (%d) below minimum (%d): %s", low, b.low, text)
	case high > b.high:
		return field{}, fmt.Errorf("end of range (%d) above maximum (%d): %s", high, b.high, text)
	case low > high:
		return field{}, fmt.Errorf("beginning of range (%d) beyond end of range (%d): %s", low, high, text)
	case step == 0:
		return field{}, fmt.Errorf("step of range should be a positive number: %s", text)
	}
	f := field{star: star && step == 1}
	for n := low; n <= high; n += step {
		f.bits |= 1 << n
		if step > high {
			break
		}
	}
	return f, nil
}

// number reads a number or its name.
func (b bounds) number(text string) (int, error) {
	for i, name := range b.names {
		if strings.EqualFold(name, text) {
			return b.low + i, nil
		}
	}
	return integer(text)
}

func integer(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("failed to parse int from %s: %w", text, err)
	}
	if n < 0 {
		return 0, fmt.Errorf("negative number (%d) not allowed: %s", n, text)
	}
	return n, nil
}
