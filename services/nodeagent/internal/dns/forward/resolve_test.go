package forward

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// expect fails the test if two texts differ.
func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestCacheTimes(t *testing.T) {
	const soa = "a. 600 IN SOA a. b. 1 2 3 4 40"
	for _, tt := range []struct {
		name    string
		records []string
		kept    time.Duration
		denial  bool
	}{
		{"a.", []string{"a. 60 IN A 192.0.2.9"}, time.Minute, false},
		{"a.", []string{"a. 60 IN CNAME b.", "b. 20 IN A 192.0.2.9"}, 20 * time.Second, false},
		{"a.", []string{"a. 0 IN A 192.0.2.9"}, minKept, false},
		{"a.", []string{"a. 86400 IN A 192.0.2.9"}, maxKept, false},
		{"a.", []string{soa}, 40 * time.Second, true},
		{"a.", []string{"a. 600 IN SOA a. b. 1 2 3 4 86400"}, 10 * time.Minute, true},
		{"a.", []string{"a. 86400 IN SOA a. b. 1 2 3 4 86400"}, maxDenied, true},
		{"a.", []string{"a. 600 IN CNAME b.", soa}, 40 * time.Second, false},
		{"a.", []string{}, minKept, true},
		{"missing.", nil, minKept, true},
	} {
		t.Run(fmt.Sprint(tt.name, tt.records), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				if tt.records != nil {
					w.set(func() { w.records["a."] = tt.records })
				}
				expect(t, "before", w.cached(tt.name), "")
				w.resolve(tt.name)
				time.Sleep(tt.kept - time.Millisecond)
				if w.cached(tt.name) == "" {
					t.Errorf("not kept for %v", tt.kept)
				}
				time.Sleep(time.Millisecond)
				expect(t, "afterwards", w.cached(tt.name), "")
				positive, negative := w.f.cache.counts()
				if (positive == 0) != tt.denial || (negative == 1) != tt.denial {
					t.Errorf("got %d positive and %d negative answers", positive, negative)
				}
			})
		})
	}
}

func TestAging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.set(func() { w.records["a."] = []string{"a. 60 IN A 192.0.2.9"} })
		expect(t, "at first", w.resolve("a."), "NOERROR 192.0.2.9 for 60 s")
		time.Sleep(20 * time.Second)
		expect(t, "later", w.resolve("a."), "NOERROR 192.0.2.9 for 40 s")
		if n := w.count("a."); n != 1 {
			t.Errorf("asked %d times", n)
		}
		for name, want := range map[string]float64{
			"coredns_cache_requests_total": 2, "coredns_cache_hits_total": 1, "coredns_cache_misses_total": 1,
			"coredns_cache_entries": 1, "coredns_proxy_request_duration_seconds": 1,
		} {
			if got := w.metric(name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	})
}

func TestKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.set(func() { w.records["a."] = []string{"a. 60 IN A 192.0.2.9"} })
		queries := []*Query{about(t, "a.", dns.TypeA), about(t, "a.", dns.TypeAAAA), about(t, "a.", dns.TypeA), about(t, "a.", dns.TypeA)}
		queries[2].DNSSEC = true
		queries[3].CheckingDisabled = true
		for _, q := range queries {
			if _, err := w.f.Resolve(t.Context(), q); err != nil {
				t.Error(err)
			}
		}
		if n := w.count("a."); n != len(queries) {
			t.Errorf("asked %d times about %d things", n, len(queries))
		}
	})
}

func TestFailOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for i := range 9 {
			w.set(func() { w.records[fmt.Sprintf("a%d.", i)] = []string{fmt.Sprintf("a%d. 60 IN A 192.0.2.9", i)} })
		}
		const want = "NOERROR 192.0.2.9 for 60 s"
		w.set(func() { w.away[first] = true })
		for i := range maxFailures {
			began := time.Now()
			expect(t, "while the first is away", w.resolve(fmt.Sprintf("a%d.", i)), want)
			if took := time.Since(began); took != attemptTime {
				t.Errorf("took %v", took)
			}
		}
		began := time.Now()
		expect(t, "when the first is down", w.resolve("a3."), want)
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
		time.Sleep(2 * (tickTime + probeTime))
		if w.metric("coredns_proxy_healthcheck_failures_total") == 0 {
			t.Error("no health check has failed")
		}
		w.set(func() { w.away[first] = false; w.asked = nil })
		time.Sleep(2 * (tickTime + probeTime))
		w.set(func() { w.asked = nil })
		expect(t, "when the first is up", w.resolve("a4."), want)
		w.set(func() { expect(t, "asked", fmt.Sprint(w.asked), "[192.0.2.1 a4.]") })

		// Who refuses is not down, but another may know.
		w.set(func() { w.codes[first] = dns.RcodeRefused; w.asked = nil })
		expect(t, "when the first refuses", w.resolve("a5."), want)
		w.set(func() { w.codes[second] = dns.RcodeServerFailure })
		expect(t, "when both refuse", w.resolve("a6."), "SERVFAIL")
		w.set(func() { clear(w.codes) })
		expect(t, "what failed is kept for a while", w.resolve("a6."), "SERVFAIL")
		time.Sleep(minKept)
		expect(t, "what failed is asked again", w.resolve("a6."), want)

		w.set(func() { w.codes[first] = dns.RcodeFormatError })
		expect(t, "without extensions", w.resolve("a7."), want)

		w.set(func() { w.away[first], w.away[second] = true, true })
		began = time.Now()
		expect(t, "when all are away", w.resolve("a8."), "error")
		if took := time.Since(began); took > askTime {
			t.Errorf("took %v", took)
		}
	})
}

// TestLostPackets checks that a server is asked again if it does not answer, and may answer late.
func TestLostPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(cfg *Config) { cfg.StubDomains = map[string][]netip.AddrPort{".": {first}} })
		w.set(func() { w.records["a."] = []string{"a. 60 IN A 192.0.2.9"}; w.away[first] = true })
		go func() {
			time.Sleep(attemptTime / 2)
			w.set(func() { w.away[first] = false })
		}()
		began := time.Now()
		expect(t, "after a lost packet", w.resolve("a."), "NOERROR 192.0.2.9 for 60 s")
		if took := time.Since(began); took != attemptTime {
			t.Errorf("took %v", took)
		}
		w.set(func() { w.takes[first] = 5 * attemptTime / 2; w.asked = nil })
		began = time.Now()
		expect(t, "a slow server", w.resolve("b."), "NXDOMAIN")
		if took := time.Since(began); took != 5*attemptTime/2 {
			t.Errorf("took %v", took)
		}
		if n := w.count("b."); n != maxAttempts {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestNobodyToAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(cfg *Config) { cfg.StubDomains = nil })
		expect(t, "without servers", w.resolve("a."), "error")
	})
}

func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.set(func() { w.records["a."] = []string{"a. 60 IN A 192.0.2.9"} })
		const stale = "NOERROR 192.0.2.9 for 30 s"
		w.resolve("a.")
		w.set(func() { w.away[first], w.away[second] = true, true })
		time.Sleep(2 * time.Minute)
		began := time.Now()
		expect(t, "while all are away", w.resolve("a."), stale)
		if took := time.Since(began); took != staleAfter {
			t.Errorf("took %v", took)
		}
		time.Sleep(time.Minute)
		w.resolve("a.")
		time.Sleep(time.Minute)
		began = time.Now()
		expect(t, "while all are down", w.resolve("a."), stale)
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
		if w.metric("coredns_cache_served_stale_total") != 3 {
			t.Errorf("counted %v", w.metric("coredns_cache_served_stale_total"))
		}
		// A failure says less than the expired answer.
		w.set(func() {
			clear(w.away)
			w.codes[first], w.codes[second] = dns.RcodeServerFailure, dns.RcodeServerFailure
		})
		time.Sleep(time.Minute)
		expect(t, "while all fail", w.resolve("a."), stale)
		time.Sleep(time.Second)
		expect(t, "after a failure", w.resolve("a."), stale)
		w.set(func() { clear(w.codes) })
		time.Sleep(time.Minute)
		expect(t, "afterwards", w.resolve("a."), "NOERROR 192.0.2.9 for 60 s")

		w.set(func() { w.away[first], w.away[second] = true, true })
		time.Sleep(time.Minute + staleFor)
		expect(t, "after too long", w.resolve("a."), "error")
	})
}

func TestPrefetch(t *testing.T) {
	for _, tt := range []struct {
		name  string
		asked int
		want  int
	}{{"popular", popular, 1}, {"asked once", popular - 1, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				w.set(func() { w.records["a."] = []string{"a. 60 IN A 192.0.2.9"} })
				w.resolve("a.")
				w.count("a.")
				time.Sleep(55 * time.Second)
				for range tt.asked {
					expect(t, "soon before the end", w.cached("a."), "NOERROR 192.0.2.9 for 5 s")
				}
				synctest.Wait()
				if n := w.count("a."); n != tt.want {
					t.Errorf("asked %d times", n)
				}
				time.Sleep(6 * time.Second)
				if got := w.cached("a."); (got != "") != (tt.want > 0) {
					t.Errorf("afterwards got %q", got)
				}
			})
		})
	}
}

func TestSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.set(func() { w.records["a."] = []string{"a. 60 IN A 192.0.2.9"} })
		w.set(func() { w.takes[first] = 500 * time.Millisecond })
		var asking sync.WaitGroup
		for range 50 {
			asking.Go(func() { expect(t, "together", w.resolve("a."), "NOERROR 192.0.2.9 for 60 s") })
		}
		asking.Wait()
		if n := w.count("a."); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestTooManyFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.set(func() { w.away[first], w.away[second] = true, true })
		var asking sync.WaitGroup
		for i := range maxFlights {
			asking.Go(func() { w.resolve(fmt.Sprintf("a%d.", i)) })
		}
		synctest.Wait()
		if _, err := w.f.Resolve(t.Context(), about(t, "b.", dns.TypeA)); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v", err)
		}
		asking.Wait()
		if n := w.metric("coredns_forward_max_concurrent_rejects_total"); n != 1 {
			t.Errorf("counted %v", n)
		}
		w.set(func() { clear(w.away) })
		time.Sleep(time.Minute)
		expect(t, "afterwards", w.resolve("b."), "NXDOMAIN")
	})
}

func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		asking.Go(func() {
			if _, err := f.Resolve(t.Context(), about(t, "a.", dns.TypeA)); err == nil {
				t.Error("resolved a name without servers")
			}
		})
		synctest.Wait() // It waits for Run.
		cancel()
		if err := f.Run(ctx); err != nil {
			t.Error(err)
		}
		asking.Wait()
	})
}
