package quantity

import (
	"bytes"
	"slices"

	"sigs.k8s.io/yaml"
)

// JSON returns an error if decode, given data, would parse a costly quantity. Decoding must be of a type that
// cannot take a time of its own that is more than linear. Nearly always, JSON only reads the data. If it finds a string or a
// number that would be a costly quantity, it calls decode with copies in which that is replaced: only if it is a
// quantity, and not, say, a label, does a copy fail to be decoded that has no number there.
//
// The error is a *CostlyError, or that of decode if the data cannot be decoded for another reason: then, too, the
// data must not be decoded.
func JSON(data []byte, decode func([]byte) error) error {
	return check(data, jsonSpans(data), decode)
}

// YAML is JSON for a body in YAML. decode gets it as JSON.
func YAML(data []byte, decode func([]byte) error) error {
	converted, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil //nolint:nilerr // Decoding it fails at once, and says why in its own words.
	}
	return JSON(converted, decode)
}

// Protobuf is JSON for a body in protobuf.
func Protobuf(data []byte, decode func([]byte) error) error {
	return check(data, protobufSpans(data), decode)
}

func check(data []byte, found []span, decode func([]byte) error) error {
	if len(found) == 0 {
		return nil
	}
	if decode(replaced(data, found, unparsable)) == nil {
		return nil
	}
	if err := decode(replaced(data, found, cheap)); err != nil {
		return err
	}
	return found[0].err
}

// replaced returns a copy of a body with parts replaced.
func replaced(data []byte, parts []span, with func(length int) []byte) []byte {
	data = slices.Clone(data)
	for _, one := range parts {
		with := with(one.end - one.start)
		if !one.quoted && with[0] == unknownDigit {
			with[0], with[len(with)-1] = '"', '"' // A number that is none would not be JSON.
		}
		copy(data[one.start:one.end], with)
	}
	return data
}

// unknownDigit is a byte that no quantity has.
const unknownDigit = 'x'

// unparsable returns a text of a length that is no quantity.
func unparsable(length int) []byte { return bytes.Repeat([]byte{unknownDigit}, length) }

// cheap returns a quantity of 1 that is a text of a length of at least 3, and a number of JSON too.
func cheap(length int) []byte {
	text := bytes.Repeat([]byte{'0'}, length)
	copy(text, "1e")
	return text
}

// Fields is JSON for an object without a Go type. decode must not change what it gets.
func Fields(fields map[string]any, decode func(map[string]any) error) error {
	first := costlyWithin(fields)
	if first == nil {
		return nil
	}
	with := func(text func(length int) []byte) map[string]any {
		copied, _ := substituted(fields, text).(map[string]any)
		return copied
	}
	if decode(with(unparsable)) == nil {
		return nil
	}
	if err := decode(with(cheap)); err != nil {
		return err
	}
	return first
}

// costlyWithin returns the error of a string within a value that would be a costly quantity; nil if there is none.
func costlyWithin(value any) error {
	switch v := value.(type) {
	case string:
		return costly(v)
	case []any:
		for _, one := range v {
			if err := costlyWithin(one); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, one := range v {
			if err := costlyWithin(one); err != nil {
				return err
			}
		}
	}
	return nil
}

// substituted returns a copy of a value in which the strings are replaced that would be costly quantities.
func substituted(value any, by func(length int) []byte) any {
	switch v := value.(type) {
	case string:
		if costly(v) != nil {
			return string(by(len(v)))
		}
	case []any:
		copied := make([]any, len(v))
		for i, one := range v {
			copied[i] = substituted(one, by)
		}
		return copied
	case map[string]any:
		copied := make(map[string]any, len(v))
		for key, one := range v {
			copied[key] = substituted(one, by)
		}
		return copied
	}
	return value
}
