package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also stands for a benchmark that runs inside the namespaces: Enter runs the test's program again.
func TestMain(m *testing.M) {
	if os.Getenv(inside) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := Enter(ctx, sleepInside)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// namespaceFile has the network namespace that sleepInside runs in.
const namespaceFile = "namespace"

// sleepInside runs a program that does not end by itself, until the context ends.
func sleepInside(ctx context.Context, dir string) error {
	p, err := Run(dir, "sleeper", "sleep", "3600")
	if err != nil {
		return err
	}
	name, err := os.Readlink("/proc/self/ns/net")
	// Written and then renamed, so that the test sees all of it.
	path := filepath.Join(dir, namespaceFile)
	err = errors.Join(err, os.WriteFile(path+".new", []byte(name), 0o600), os.Rename(path+".new", path))
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, p.Stop())
}
