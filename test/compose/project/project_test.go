package project

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParseContainers(t *testing.T) {
	got, err := parseContainers(`{"ID":"b","Name":"p-node-10","Service":"node","State":"running","Health":"healthy","ExitCode":0}
{"ID":"a","Name":"p-node-2","Service":"node","State":"exited","Health":"","ExitCode":137}
`)
	want := []Container{
		{ID: "a", Name: "p-node-2", Service: "node", State: "exited", ExitCode: 137},
		{ID: "b", Name: "p-node-10", Service: "node", State: "running", Health: "healthy"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := parseContainers(""); err != nil || len(got) != 0 {
		t.Errorf("got %+v, %v for no output", got, err)
	}
	if _, err := parseContainers("{"); err == nil {
		t.Error("half a line was accepted")
	}
}

func TestNewWants(t *testing.T) {
	for _, cfg := range []Config{{}, {Name: "x"}, {Source: "x"}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

// fake puts a docker on PATH that records its calls and then runs script.
func fake(t *testing.T, script string) (calls func() string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "calls")
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\necho \"$GARBOARD_PORT $*\" >>"+file+"\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func() string {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
}

// TestCalls checks the calls to Docker, with the settings in its environment.
func TestCalls(t *testing.T) {
	calls := fake(t, "exit 0\n")
	p, err := New(Config{Name: "p", Source: "/src", Profiles: []string{"ha"}, Settings: map[string]string{"GARBOARD_PORT": "7"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, err := range []error{
		p.Up(ctx), p.Scale(ctx, map[string]int{"b": 2, "a": 1}), p.Kill(ctx, "etcd", 1, "KILL"), p.Start(ctx, "etcd", 1),
		p.Pause(ctx, "nats", 2), p.Unpause(ctx, "nats", 2), p.Disconnect(ctx, "nats", 1), p.Connect(ctx, "nats", 1, "other"), p.Down(ctx),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	const compose = "7 compose --project-name p --file /src/compose/compose.yaml --ansi never --progress plain --profile ha "
	want := strings.Join([]string{
		compose + "up --detach --wait --no-build --quiet-pull",
		compose + "up --detach --wait --no-build --no-recreate --scale a=1 --scale b=2",
		"7 kill --signal KILL p-etcd-1",
		"7 start p-etcd-1",
		"7 pause p-nats-2",
		"7 unpause p-nats-2",
		"7 network disconnect p_default p-nats-1",
		"7 network disconnect p_nodes p-nats-1",
		"7 network connect --alias nats --alias other p_default p-nats-1",
		"7 network connect --alias nats --alias other p_nodes p-nats-1",
		compose + "--profile * --progress quiet down --volumes --remove-orphans",
	}, "\n") + "\n"
	if got := calls(); got != want {
		t.Errorf("got the calls:\n%s\nwant:\n%s", got, want)
	}
}

// TestFailure checks that errors contain Docker's output.
func TestFailure(t *testing.T) {
	fake(t, "echo broken >&2; exit 3\n")
	p, err := New(Config{Name: "p", Source: "/src"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Up(t.Context()); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("got %v", err)
	}
	if _, err := p.Leftovers(t.Context()); err == nil {
		t.Error("a list was read without output")
	}
	if _, err := p.Gateway(t.Context()); err == nil {
		t.Error("an address was read without output")
	}
}
