package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/garboard/garboard/bench/measure"
)

func TestShow(t *testing.T) {
	var out bytes.Buffer
	b := &bench{settings: settings{repeats: 3}, report: measure.Report{To: &out}, sides: []side{{name: "one"}, {name: "other"}}}
	turn := func(n int) result {
		d := time.Duration(n)
		return result{
			programmed: d * time.Second, programmedCPU: d * time.Second / 2, change: d * time.Millisecond, changeMost: 9 * d * time.Millisecond,
			changeCPU: d * 250 * time.Microsecond, first: d * 50 * time.Microsecond, last: d * 60 * time.Microsecond, failed: n,
			resident: int64(n) * 100e6, anonymous: int64(n) * 40e6, peak: int64(n) * 200e6,
		}
	}
	b.show(2000, map[string][]result{"one": {turn(3), turn(1), turn(2)}, "other": {turn(4), turn(4), turn(4)}})
	for _, row := range []string{
		"| 2000 Services of 10 endpoints | one | other |",
		"| start until all Services work, s | **2** (1 to 3) | **4** (4 to 4) |",
		"| CPU until then, s | **1** (0.5 to 1.5) | **2** (2 to 2) |",
		"| – the longest of a turn, ms | **18** (9 to 27) | **36** (36 to 36) |",
		"| – CPU each, of changes without a pause, ms | **0.5** (0.25 to 0.75) | **1** (1 to 1) |",
		"| connection through Service 2000, µs | **120** (60 to 180) | **240** (240 to 240) |",
		"| resident memory at rest, MB | **200** (100 to 300) | **400** (400 to 400) |",
		"| peak memory of the start, MB | **400** (200 to 600) | **800** (800 to 800) |",
	} {
		if !strings.Contains(out.String(), row+"\n") {
			t.Errorf("the row is missing: %s", row)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}
