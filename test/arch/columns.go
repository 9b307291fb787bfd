package arch

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"strings"
	"unicode/utf8"
)

// MaxColumns limits the length of a line in files that are neither generated nor tests, in
// characters; a tab counts as one. The content of string literals, which include struct tags, does
// not count, and neither does a line with a URL.
const MaxColumns = 140

// wideFolders maps folders, including those below them, that may have longer lines to the reason.
var wideFolders = map[string]string{
	"services/apiserver":         movesWithTheCatalog,
	"libs/informer/fabricsource": "its types move with the fabric's nouns",
}

// Reasons of exceptions for packages whose content is about to move.
const (
	movesWithTheCatalog = "its content moves with the catalog of kinds"
)

// checkColumns finds lines that are too long.
func checkColumns(s source) []Violation {
	if s.test || s.generated || exempt(wideFolders, s.dir) != "" {
		return nil
	}
	var found []Violation
	for _, line := range s.wide {
		found = append(found, Violation{
			fmt.Sprintf("%s:%d", s.file, line), fmt.Sprintf("has more than %d columns without its strings", MaxColumns),
		})
	}
	return found
}

// staleColumns returns the exceptions to checkColumns that nothing needs.
func staleColumns(sources []source) []Violation {
	needed := map[string]bool{}
	for _, s := range sources {
		if len(s.wide) > 0 && !s.test && !s.generated {
			needed[exempt(wideFolders, s.dir)] = true
		}
	}
	var found []Violation
	for dir := range wideFolders {
		if !needed[dir] {
			found = append(found, Violation{dir, "has no long lines: remove it from wideFolders"})
		}
	}
	return found
}

// exempt returns the folder in exceptions that is dir or above it; the empty string if none is.
func exempt(exceptions map[string]string, dir string) string {
	for folder := range exceptions {
		if below(dir, folder) {
			return folder
		}
	}
	return ""
}

// wideLines returns the numbers of the lines that are longer than MaxColumns.
func wideLines(data []byte) []int {
	var wide []int
	var strings map[int]int
	number := 0
	for line := range bytes.Lines(data) {
		number++
		length := utf8.RuneCount(bytes.TrimRight(line, "\r\n"))
		if length <= MaxColumns || bytes.Contains(line, []byte("://")) {
			continue
		}
		if strings == nil {
			strings = stringColumns(data)
		}
		if length-strings[number] > MaxColumns {
			wide = append(wide, number)
		}
	}
	return wide
}

// stringColumns returns how many columns string literals take, without their quotes, by line.
func stringColumns(data []byte) map[int]int {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(data))
	var s scanner.Scanner
	s.Init(file, data, func(token.Position, string) {}, 0)
	columns := map[int]int{}
	for {
		position, tok, text := s.Scan()
		if tok == token.EOF {
			return columns
		}
		if tok != token.STRING {
			continue
		}
		line := file.Line(position)
		for part := range strings.Lines(text[1 : len(text)-1]) {
			columns[line] += utf8.RuneCountInString(strings.TrimRight(part, "\r\n"))
			line++
		}
	}
}
