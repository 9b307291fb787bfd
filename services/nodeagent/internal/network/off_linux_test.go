package network_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/services/nodeagent/internal/network"
)

// within starts a function in a network namespace of its own, which ends with it. The function may start others
// only if they do nothing to the network.
func within(t *testing.T, f func() error) (ended <-chan error) {
	t.Helper()
	result := make(chan error, 1)
	go func() {
		if os.Geteuid() != 0 { // It can change nothing.
			result <- f()
			return
		}
		runtime.LockOSThread() // It is not unlocked: the thread ends with its namespace.
		own, err := netns.New()
		if err == nil {
			err = errors.Join(f(), own.Close())
		}
		result <- err
	}()
	return result
}

// TestOff: without any part Run removes what earlier ones have left, and waits. It needs neither the plane nor a
// token.
func TestOff(t *testing.T) { synctest.Test(t, testOff) }

func testOff(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may make network namespaces")
	}
	cfg, calls := config(t, nil)
	conf := filepath.Join(cfg.PodNetwork.CNIConfDir, "10-garboard.conflist")
	if err := errors.Join(os.Mkdir(cfg.PodNetwork.CNIConfDir, 0o755), os.WriteFile(conf, []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := within(t, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		address, err := netlink.ParseAddr(cfg.LocalAddress.String() + "/32")
		if err != nil {
			return err
		}
		vxlan := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "gb-vxlan"}, VxlanId: 1, Port: 4789}
		if err := errors.Join(netlink.LinkAdd(vxlan), netlink.AddrAdd(lo, address)); err != nil {
			return err
		}
		err = network.New(cfg).Run(ctx)
		if _, left := netlink.LinkByName("gb-vxlan"); !errors.As(left, &netlink.LinkNotFoundError{}) {
			t.Errorf("the device is left: %v", left)
		}
		if left, fault := netlink.AddrList(lo, netlink.FAMILY_ALL); len(left) != 0 || fault != nil {
			t.Errorf("the loopback interface has %v: %v", left, fault)
		}
		return err
	})
	synctest.Wait()
	if _, err := os.Stat(conf); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the configuration is left: %v", err)
	}
	select {
	case err := <-ended:
		t.Fatalf("Run returned %v", err)
	default:
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run returned %v", err)
	}
	if got := calls.noted(); len(got) != 0 {
		t.Errorf("calls: %v", got)
	}
}

// TestWithoutTheLocalAddress: a node that cannot have it says so, and its other parts go on.
func TestWithoutTheLocalAddress(t *testing.T) { synctest.Test(t, testWithoutTheLocalAddress) }

func testWithoutTheLocalAddress(t *testing.T) {
	registered := make(chan struct{})
	close(registered)
	cfg, _ := config(t, registered)
	withPods(&cfg)
	cfg.DNS.On, cfg.LocalAddress = true, netip.Addr{} // The interface cannot get it.
	var told atomic.Value
	cfg.Events = func(_ apiruntime.Object, _, reason, _ string) { told.CompareAndSwap(nil, reason) }
	ctx, cancel := context.WithCancel(t.Context())
	ended := within(t, func() error { return network.New(cfg).Run(ctx) })
	time.Sleep(time.Minute)
	synctest.Wait()
	if told.Load() != "LocalAddressMissing" {
		t.Errorf("the first Event is %v", told.Load())
	}
	if err := os.Remove(cfg.TokenFile); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Hour)
	synctest.Wait()
	if _, err := os.Stat(cfg.TokenFile); err != nil {
		t.Errorf("the other parts do not go on: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run returned %v", err)
	}
}
