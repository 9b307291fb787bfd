// Command kindsdoc writes the page that lists every kind that the apiserver serves.
//
//	go run ./services/apiserver/internal/kinds/kindsdoc docs/reference/kinds.md
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/builtin"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kinds FILE")
		os.Exit(2)
	}
	catalog, err := builtin.Catalog(scheme.New(), builtin.Config{})
	if err != nil {
		fmt.Fprintf(os.Stderr, "kinds: %v\n", err)
		os.Exit(1)
	}
	var page bytes.Buffer
	write(&page, catalog)
	if err := os.WriteFile(os.Args[1], page.Bytes(), 0o644); err != nil { //nolint:gosec // Source files are world-readable.
		fmt.Fprintf(os.Stderr, "kinds: writing the page: %v\n", err)
		os.Exit(1)
	}
}
