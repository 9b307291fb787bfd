// Command draw draws the diagrams of a folder: for each NAME.txt it writes NAME.svg.
//
//	go run ./docs/diagrams/draw docs/diagrams
//
// A text has one statement a line. Empty lines and lines that begin with '#' say nothing. The parts
// of a statement's text are separated by '|', and become lines of the picture; in boxes and lanes
// the first is bold. Every diagram begins with a title, which readers see as the picture's tooltip
// and screen readers read out:
//
//	title TEXT
//
// A map places boxes on a grid. The unit of all its numbers is ten pixels:
//
//	map WIDTH HEIGHT
//	box ID LEFT TOP WIDTH HEIGHT KIND | TEXT | ...
//	arrow ID:SIDE[@OFFSET] [- | --] ID:SIDE[@OFFSET] [via N] | TEXT | ...
//
// KIND is user, service, data, part (inside another box), or frame, which has its text at its top.
// SIDE is left, right, top or bottom; OFFSET counts from the side's left or top end, and is half of
// it by default. An arrow runs along the grid, with one or two bends where its ends are not opposite
// each other; N is where its middle section runs. Two dashes dash the line.
//
// A sequence shows who sends what to whom, from top to bottom, and numbers the steps:
//
//	sequence WIDTH
//	lane ID KIND | TEXT | ...
//	step ID - ID | TEXT | ...
//	step ID | TEXT | ...
//	also ID -- ID | TEXT | ...
//
// WIDTH is a lane's, in units of ten pixels. The step of one lane happens inside it. An also is a
// step that happens only sometimes, and has no number.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "draw: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: draw FOLDER")
	}
	drawings, err := drawAll(args[0])
	if err != nil {
		return err
	}
	for name, svg := range drawings {
		if err := os.WriteFile(name, []byte(svg), 0o644); err != nil { //nolint:gosec // Readers of the docs read it.
			return fmt.Errorf("writing a drawing: %w", err)
		}
	}
	return nil
}

// drawAll draws every text of a folder, and returns the drawings by the names of their files.
func drawAll(folder string) (map[string]string, error) {
	texts, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, fmt.Errorf("listing the texts in %s: %w", folder, err)
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("there are no texts in %s", folder)
	}
	drawings := map[string]string{}
	for _, name := range texts {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading a diagram: %w", err)
		}
		svg, err := draw(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		drawings[strings.TrimSuffix(name, ".txt")+".svg"] = svg
	}
	return drawings, nil
}
