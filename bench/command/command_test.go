package command_test

import (
	"flag"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/garboard/garboard/bench/command"
)

func TestFlags(t *testing.T) {
	for _, tc := range []struct {
		args, want string
		parts      []string
		clients    []int
		repeats    int
	}{
		{"", "", []string{"one", "two"}, []int{1, 8}, 3},
		{"-parts two -clients 0,7 -repeats 1", "", []string{"two"}, []int{0, 7}, 1},
		{"-parts one,three", `there is no part "three", only one, two`, nil, nil, 0},
		{"-clients 1,,2", `"" is not a number`, nil, nil, 0},
	} {
		set := flag.NewFlagSet("x", flag.ContinueOnError)
		set.SetOutput(io.Discard)
		var parts []string
		var repeats int
		clients := []int{1, 8}
		command.Parts(set, &parts, "one", "two")
		command.Numbers(set, &clients, "clients", "numbers of clients")
		command.Repeats(set, &repeats)
		err := set.Parse(strings.Fields(tc.args))
		if tc.want != "" {
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want %s", tc.args, err, tc.want)
			}
			continue
		}
		if err != nil || !slices.Equal(parts, tc.parts) || !slices.Equal(clients, tc.clients) || repeats != tc.repeats {
			t.Errorf("%s: got %v, parts %v, clients %v, %d repeats", tc.args, err, parts, clients, repeats)
		}
		if text := set.Lookup("clients").DefValue; text != "1,8" {
			t.Errorf("the default of -clients is shown as %q", text)
		}
	}
}
