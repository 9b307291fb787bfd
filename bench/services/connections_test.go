package main

import (
	"context"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garboard/garboard/bench/command"
	"github.com/garboard/garboard/bench/node"
	"github.com/garboard/garboard/bench/sample"
	"github.com/garboard/garboard/test/containers/harness"
)

// inNamespace moves the test into a network namespace of its own, in which addresses of endpoints are local.
func inNamespace(t *testing.T) {
	t.Helper()
	harness.Require(t)
	// The thread ends with the test, since nothing unlocks it.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("a network namespace is not possible here: %v", err)
	}
	for _, line := range []string{"link set lo up", "route add local " + node.AnyAddress + " dev lo", "route add local 10.100.0.0/16 dev lo"} {
		runs(t, "", "ip", strings.Fields(line)...)
	}
	runs(t, "add table t; add chain t c { type nat hook output priority -100; }", "nft", "-f", "-")
}

func runs(t *testing.T, input, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

// leads writes a rule for a Service.
func leads(t *testing.T, service int, to string) {
	t.Helper()
	runs(t, "add rule t c ip daddr "+sample.ClusterIP(service)+" tcp dport 80 dnat to "+to+":8080", "nft", "-f", "-")
}

func TestConnections(t *testing.T) {
	inNamespace(t)
	all, err := answer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer all.end()
	b := &bench{settings: settings{services: []int{8}}}
	leads(t, 0, sample.Endpoint(0, 9))
	leads(t, 1, sample.Endpoint(1, 3))
	if err := b.check(t.Context(), 2); err != nil {
		t.Errorf("two Services that work: %v", err)
	}
	if took, endpoint, err := connect(t.Context(), 1); err != nil || took <= 0 || endpoint.String() != sample.Endpoint(1, 3) {
		t.Errorf("Service 2 leads to %v in %v: %v", endpoint, took, err)
	}
	if _, endpoint, err := connectFrom(t.Context(), watcher, 1); err != nil || endpoint.String() != sample.Endpoint(1, 3) {
		t.Errorf("from another address, Service 2 leads to %v: %v", endpoint, err)
	}
	if err := b.check(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "connecting through Service 3: ") || isTimeout(err) {
		t.Errorf("a Service without a rule: %v", err)
	}
	leads(t, 2, sample.Endpoint(1, 3))
	if err := b.check(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "the Service 3 leads to "+sample.Endpoint(1, 3)) {
		t.Errorf("a Service that leads to another's endpoint: %v", err)
	}
	b.services[0] = 4 // Now it is the Service whose endpoint changes.
	if err := b.check(t.Context(), 3); err != nil {
		t.Errorf("the Service whose endpoint changes: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.check(ended, 3); err == nil {
		t.Error("it went on although the context had ended")
	}
	if err := command.Pause(ended, time.Hour); err == nil {
		t.Error("it rested although the context had ended")
	}
}

// TestWaitingSpoilsNoConnection looks through a Service that does not work yet, and then connects with the same port.
func TestWaitingSpoilsNoConnection(t *testing.T) {
	inNamespace(t)
	runs(t, "", "sysctl", "-qw", "net.ipv4.ip_local_port_range=40000 40001") // One port that connect takes.
	all, err := answer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer all.end()
	// As on the way to a gateway, nobody answers.
	runs(t, "add chain t d { type filter hook input priority 0; }; add rule t d ip daddr 10.100.0.0/16 tcp dport 80 drop", "nft", "-f", "-")
	for _, tc := range []struct {
		from    string
		service int
		spoilt  bool
	}{{watcher, 0, false}, {"", 1, true}} {
		for range 2 { // both ports
			if _, _, err := connectFrom(t.Context(), tc.from, tc.service); !isTimeout(err) {
				t.Fatalf("Service %d works without a rule: %v", tc.service, err)
			}
		}
		leads(t, tc.service, sample.Endpoint(tc.service, 0))
		if _, _, err := connect(t.Context(), tc.service); (err != nil) != tc.spoilt {
			t.Errorf("after looking from %q: %v", tc.from, err)
		}
	}
}

func TestKernelTellsOfRules(t *testing.T) {
	inNamespace(t)
	rules, err := openKernel()
	if err != nil {
		t.Fatal(err)
	}
	defer rules.close()
	before := time.Now()
	leads(t, 0, sample.Endpoint(0, 0))
	leads(t, 0, "10.180.1.2")
	at, err := rules.named(netip.MustParseAddr("10.180.1.2"))
	if err != nil || at.Before(before) || at.After(time.Now()) {
		t.Errorf("named at %v, begun at %v: %v", at, before, err)
	}
	if out := runs(t, "", "nft", "list", "ruleset"); !strings.Contains(out, "10.180.1.2") {
		t.Fatalf("nft looks elsewhere: %s", out)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	// What the next side finds must be nothing, also after an interruption.
	if err := removeRules(ended); err != nil {
		t.Error(err)
	}
	if out := runs(t, "", "nft", "list", "ruleset"); strings.TrimSpace(out) != "" {
		t.Errorf("rules stay: %s", out)
	}
}
