package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// statement is one line of a text.
type statement struct {
	line  int
	verb  string
	words []string
	texts []string
}

// kinds are what a box or a lane may show.
var kinds = []string{"user", "service", "data", "part", "frame"}

// draw returns the drawing of a text as SVG.
func draw(text string) (string, error) {
	statements := read(text)
	if len(statements) < 2 || statements[0].verb != "title" {
		return "", errors.New("the text does not begin with a title and a map or a sequence")
	}
	title, first, rest := strings.Join(statements[0].words, " "), statements[1], statements[2:]
	size, err := first.numbers(first.words)
	var drawn *picture
	switch {
	case err != nil:
	case first.verb == "map" && len(size) == 2:
		drawn, err = drawMap(size[0], size[1], rest)
	case first.verb == "sequence" && len(size) == 1:
		drawn, err = drawSequence(size[0], rest)
	default:
		err = first.errorf("want map WIDTH HEIGHT, or sequence WIDTH")
	}
	if err != nil {
		return "", err
	}
	return drawn.svg(title), nil
}

func read(text string) []statement {
	var all []statement
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, "|")
		for j := range parts {
			parts[j] = strings.TrimSpace(parts[j])
		}
		words := strings.Fields(parts[0])
		if len(words) == 0 {
			words = []string{""}
		}
		all = append(all, statement{line: i + 1, verb: words[0], words: words[1:], texts: parts[1:]})
	}
	return all
}

func (s statement) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: %s: %w", s.line, s.verb, fmt.Errorf(format, args...))
}

// numbers returns the words as pixels.
func (s statement) numbers(words []string) ([]float64, error) {
	numbers := make([]float64, len(words))
	for i, word := range words {
		n, err := strconv.ParseFloat(word, 64)
		if err != nil || n < 0 {
			return nil, s.errorf("%q is not a number", word)
		}
		numbers[i] = n * unit
	}
	return numbers, nil
}

// kind returns a word if it is a kind.
func (s statement) kind(word string) (string, error) {
	if !slices.Contains(kinds, word) {
		return "", s.errorf("%q is none of %s", word, strings.Join(kinds, ", "))
	}
	return word, nil
}
