package nft_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/garboard/garboard/services/nodeagent/internal/nft"
	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/ledger"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/rules"
)

// second returns another connection in the network namespace of the thread.
func second(t *testing.T) *nft.Conn {
	t.Helper()
	conn, err := nft.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return conn
}

func filled(t *testing.T, conn *nft.Conn, services int) *ledger.Ledger {
	t.Helper()
	l := ledger.New()
	l.SetSkeleton(rules.Skeleton(ruleset.IPv4, node()))
	for i := range services {
		l.Put(unit(ruleset.IPv4, fmt.Sprintf("s-%d", i), 1000+i, 2))
	}
	apply(t, conn, ruleset.IPv4, repairs(t, conn, l, ruleset.IPv4)...)
	return l
}

// TestRebuildIsNeverSeenHalf reads the table while another connection rebuilds it.
func TestRebuildIsNeverSeenHalf(t *testing.T) {
	conn := connect(t)
	l := filled(t, conn, 20)
	reader := second(t)
	want := len(l.Repair(&ruleset.Actual{})[0].Chains)
	var done atomic.Bool
	var reading sync.WaitGroup
	reading.Go(func() {
		for reads := 0; reads < 10 || !done.Load(); reads++ {
			actual, err := reader.Read(ruleset.IPv4, table)
			if err != nil {
				// It changed faster than it could be read.
				continue
			}
			if !actual.Exists || len(actual.Chains) != want {
				t.Errorf("a reader sees %d chains, want %d", len(actual.Chains), want)
			}
		}
	})
	for range 30 {
		apply(t, conn, ruleset.IPv4, l.Repair(&ruleset.Actual{})...)
	}
	done.Store(true)
	reading.Wait()
	if left := repairs(t, conn, l, ruleset.IPv4); len(left) != 0 {
		t.Errorf("after the last rebuilding, %+v is left", left[0])
	}
}

// TestLargeTransaction rebuilds a table of many Services at once.
func TestLargeTransaction(t *testing.T) {
	conn := connect(t)
	l := filled(t, conn, 0)
	for i := range 300 {
		l.Put(unit(ruleset.IPv4, fmt.Sprintf("s-%d", i), 1000+i, 50))
	}
	apply(t, conn, ruleset.IPv4, l.Repair(&ruleset.Actual{})...)
	if left := repairs(t, conn, l, ruleset.IPv4); len(left) != 0 {
		t.Errorf("left: %d changes", len(left))
	}
}

func TestUnseen(t *testing.T) {
	conn := connect(t)
	other := second(t)
	expect := func(when string, c *nft.Conn, want bool) {
		t.Helper()
		if got, err := c.Unseen(); got != want || err != nil {
			t.Errorf("%s: Unseen = %v, %v", when, got, err)
		}
	}
	expect("at first", conn, true)
	if err := conn.MarkSeen(); err != nil {
		t.Fatal(err)
	}
	expect("once seen", conn, false)
	l := filled(t, conn, 1)
	expect("after own changes", conn, false)
	if err := other.DeleteTable(ruleset.IPv6, "any"); err != nil {
		t.Fatal(err)
	}
	expect("after another's change", conn, true)
	// Own changes do not hide it.
	apply(t, conn, ruleset.IPv4, l.Put(unit(ruleset.IPv4, "more", 7, 1)))
	expect("after another's and own changes", conn, true)
	if err := conn.MarkSeen(); err != nil {
		t.Fatal(err)
	}
	expect("once seen again", conn, false)
}
