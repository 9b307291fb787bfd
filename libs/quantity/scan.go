package quantity

import "unicode/utf8"

// shortest is the shortest run of digits that can make a quantity costly: those of an exponent.
const shortest = maxExponent + 1

// run finds the next run of digits from a position on that may be the exponent of a costly quantity, or that is too
// long, and returns where it begins and ends. It reads every fourth byte of what has no digits.
func run(data []byte, from int) (start, end int, ok bool) {
	for i := from + shortest - 1; i < len(data); i += shortest {
		if data[i]-'0' > 9 {
			continue
		}
		start, end = i, i+1
		for start > from && data[start-1]-'0' <= 9 {
			start--
		}
		for end < len(data) && data[end]-'0' <= 9 {
			end++
		}
		if length := end - start; length > maxDigits || length >= shortest && exponent(data, start) >= 0 {
			return start, end, true
		}
		i = end // No run begins here, so the next to look at is one further than otherwise.
	}
	return 0, 0, false
}

// exponent returns where the letter is after which a run of digits is an exponent; -1 if there is none.
func exponent(data []byte, start int) int {
	at := start - 1
	if at >= 0 && (data[at] == '+' || data[at] == '-') {
		at--
	}
	if at >= 0 && (data[at] == 'e' || data[at] == 'E') {
		return at
	}
	return -1
}

// span is a part of a body that may be a costly quantity.
type span struct {
	start, end int
	quoted     bool // the part is all of a string, but for space
	err        error
}

// jsonSpans returns the strings and numbers of valid JSON that would be costly quantities. Escapes in strings are
// not resolved, as they are not where quantities are decoded.
func jsonSpans(data []byte) []span {
	if !mayHold(data) {
		return nil
	}
	var found []span
	for next := 0; next < len(data); {
		one := span{start: next, end: next}
		switch c := data[next]; {
		case c == '"':
			one.start, one.end, one.quoted = next+1, stringEnd(data, next+1), true
			next = one.end + 1
		case numeric(c):
			for next < len(data) && numeric(data[next]) {
				next++
			}
			one.end = next
		default:
			next++
		}
		if one.err = costly(data[one.start:one.end]); one.err != nil {
			found = append(found, one)
		}
	}
	return found
}

// stringEnd returns where a string of JSON ends that begins at a position.
func stringEnd(data []byte, at int) int {
	for at < len(data) && data[at] != '"' {
		if data[at] == '\\' {
			at++
		}
		at++
	}
	return min(at, len(data))
}

// mayHold reports whether JSON may have a string or a number that would be a costly quantity. Hashes, which objects
// often have, seldom do: more of them follows.
func mayHold(data []byte) bool {
	for from := 0; ; {
		_, end, ok := run(data, from)
		if !ok {
			return false
		}
		if end == len(data) || data[end] <= ' ' || data[end] >= utf8.RuneSelf {
			return true
		}
		switch data[end] {
		case '"', ',', ']', '}', '\\', '.', 'e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P':
			return true
		}
		from = end
	}
}

// costly is Costly, but makes a string only of what begins as a quantity does.
func costly[T string | []byte](text T) error {
	if len(text) < shortest || text[0] > ' ' && text[0] < utf8.RuneSelf && !numeric(text[0]) {
		return nil
	}
	return Costly(string(text))
}

// numeric reports whether a number may contain a byte.
func numeric(c byte) bool {
	return c-'0' <= 9 || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}
