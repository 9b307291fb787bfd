// Package command has what the benchmarks that are programs share: how they start and end, and flags
// of the same meaning.
package command

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Main parses the process's arguments, and runs the benchmark until it ends or a signal interrupts
// it. An error goes to stderr under the program's name, and the process ends with status 1.
func Main[Settings any](name string, parse func(args []string) (Settings, error), run func(context.Context, Settings) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	s, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, s)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Repeats defines the flag -repeats.
func Repeats(set *flag.FlagSet, into *int) {
	set.IntVar(into, "repeats", 3, "measurements per median")
}

// Parts defines the flag -parts, which chooses some of the named measurements; by default all.
func Parts(set *flag.FlagSet, into *[]string, names ...string) {
	*into = names
	set.Var(&parts{into, names}, "parts", "what to measure")
}

type parts struct {
	chosen *[]string
	names  []string
}

func (p *parts) Set(text string) error {
	chosen := strings.Split(text, ",")
	for _, name := range chosen {
		if !slices.Contains(p.names, name) {
			return fmt.Errorf("there is no part %q, only %s", name, strings.Join(p.names, ", "))
		}
	}
	*p.chosen = chosen
	return nil
}

func (p *parts) String() string { return strings.Join(p.names, ",") }

// Numbers defines a flag of numbers, separated by commas. The value in into is the default.
func Numbers(set *flag.FlagSet, into *[]int, name, usage string) {
	set.Var((*numbers)(into), name, usage)
}

type numbers []int

func (n *numbers) Set(text string) error {
	var list []int
	for field := range strings.SplitSeq(text, ",") {
		number, err := strconv.Atoi(field)
		if err != nil {
			return fmt.Errorf("%q is not a number", field)
		}
		list = append(list, number)
	}
	*n = list
	return nil
}

func (n *numbers) String() string {
	var fields []string
	for _, number := range *n {
		fields = append(fields, strconv.Itoa(number))
	}
	return strings.Join(fields, ",")
}

// FreeAddress returns an address of this machine on which nothing listens at present.
func FreeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String(), nil
}
