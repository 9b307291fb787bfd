package network_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/garboard/garboard/services/nodeagent/internal/network"
)

// TestOff: without any part Run removes what earlier ones have left, and waits. It needs neither the plane nor a
// token.
func TestOff(t *testing.T) { synctest.Test(t, testOff) }

func testOff(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may make network namespaces")
	}
	cfg, calls := config(t, nil)
	conf := filepath.Join(cfg.CNIConfDir, "10-garboard.conflist")
	if err := errors.Join(os.Mkdir(cfg.CNIConfDir, 0o755), os.WriteFile(conf, []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended, left := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // It is not unlocked: the thread ends with its namespace.
		own, err := netns.New()
		if err != nil {
			ended <- err
			return
		}
		defer own.Close()
		err = netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "gb-vxlan"}, VxlanId: 1, Port: 4789})
		if err != nil {
			ended <- err
			return
		}
		ended <- network.New(cfg).Run(ctx)
		_, err = netlink.LinkByName("gb-vxlan")
		left <- err
	}()
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
	if err := <-left; !errors.As(err, &netlink.LinkNotFoundError{}) {
		t.Errorf("the device is left: %v", err)
	}
	if got := calls.noted(); len(got) != 0 {
		t.Errorf("calls: %v", got)
	}
}
