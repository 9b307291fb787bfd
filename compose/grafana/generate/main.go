// Command generate writes the dashboards of this folder for Grafana: `go run ./compose/grafana/generate DIR`.
// The tables of this package define the panels; the other files lay them out.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate DIR")
		os.Exit(2)
	}
	for _, d := range dashboards() {
		data, err := d.encode()
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], d.id+".json"), data, 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "error: writing the dashboard %s: %v\n", d.id, err)
			os.Exit(1)
		}
	}
}

func dashboards() []dashboard {
	return []dashboard{overview(), apiserver(), fabric(), controllers(), nodes(), etcd()}
}
