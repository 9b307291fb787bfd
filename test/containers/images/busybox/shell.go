package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// script runs a line of commands and returns the exit code of the last one.
func script(text string, out io.Writer) int {
	code := 0
	var command []string
	skip := false
	finish := func(joint string) {
		if len(command) > 0 && !skip {
			code = redirected(command, out)
		}
		command = nil
		skip = joint == "&&" && code != 0 || joint == "||" && code == 0
	}
	words, err := split(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sh:", err)
		return 2
	}
	for _, word := range words {
		switch {
		case word.joint:
			finish(word.text)
		default:
			command = append(command, word.text)
		}
	}
	finish("")
	return code
}

// redirected runs a command whose output may go to a file or to standard error.
func redirected(command []string, out io.Writer) int {
	for i, word := range command {
		target, flags := "", os.O_WRONLY|os.O_CREATE
		switch {
		case word == ">&2" || word == "1>&2":
			return run(command[:i], os.Stderr)
		case (word == ">" || word == ">>") && i+1 < len(command):
			target = command[i+1]
		default:
			continue
		}
		if word == ">" {
			flags |= os.O_TRUNC
		} else {
			flags |= os.O_APPEND
		}
		file, err := os.OpenFile(target, flags, 0o644)
		if err != nil {
			fmt.Fprintln(os.Stderr, "sh:", err)
			return 1
		}
		defer func() { _ = file.Close() }()
		return run(command[:i], file)
	}
	return run(command, out)
}

type word struct {
	text  string
	joint bool
}

// split splits a script into words, with quotes and variables resolved.
func split(text string) ([]word, error) {
	var words []word
	var current strings.Builder
	started := false
	var quote rune
	end := func() {
		if started {
			words = append(words, word{text: current.String()})
		}
		current.Reset()
		started = false
	}
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		c := runes[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case c == '$' && quote != '\'' && i+1 < len(runes):
			name := variable(runes[i+1:])
			current.WriteString(os.Getenv(strings.Trim(name, "{}")))
			started = true
			i += len([]rune(name))
		case quote != 0:
			current.WriteRune(c)
		case c == '\'' || c == '"':
			quote, started = c, true
		case c == ' ' || c == '\t':
			end()
		case c == ';' || c == '\n':
			end()
			words = append(words, word{text: ";", joint: true})
		case (c == '&' || c == '|') && i+1 < len(runes) && runes[i+1] == c:
			end()
			words = append(words, word{text: string([]rune{c, c}), joint: true})
			i++
		default:
			current.WriteRune(c)
			started = true
		}
	}
	end()
	if quote != 0 {
		return nil, fmt.Errorf("unterminated quote %c", quote)
	}
	return words, nil
}

// variable returns the variable name at the start of text, with its braces.
func variable(text []rune) string {
	var name strings.Builder
	for i, c := range text {
		braced := text[0] == '{'
		letter := c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && (i > 0 || c != '{') && (!braced || c != '}') {
			break
		}
		name.WriteRune(c)
		if braced && c == '}' {
			break
		}
	}
	return name.String()
}
