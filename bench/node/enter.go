package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// inside is the environment variable that has the folder of the programs, in the process inside the namespaces.
const inside = "GARBOARD_BENCH_INSIDE"

// endTimeout bounds how long programs may take to end.
const endTimeout = 30 * time.Second

// Enter runs work in a network namespace of its own. It builds the plane's programs, and then runs this program
// again as the first process of the namespaces, which the kernel ends with it. Work gets the folder of the built
// programs, which is removed at the end and may hold more.
func Enter(ctx context.Context, work func(ctx context.Context, dir string) error) error {
	if dir := os.Getenv(inside); dir != "" {
		if err := prepare(ctx, dir); err != nil {
			return fmt.Errorf("preparing the network namespace: %w", err)
		}
		return work(ctx, dir)
	}
	if os.Geteuid() != 0 {
		return errors.New("it needs network namespaces, which only root can make")
	}
	dir, err := os.MkdirTemp("", "bench-node-")
	if err != nil {
		return fmt.Errorf("creating a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// Outside, where modules can be downloaded.
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", dir+"/", "./cmd/garboard", "./cmd/nodeagent")
	build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr // as `make build` does
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the programs, which must run in the repository's root: %w", err)
	}
	// The kernel takes the end of this thread for the end of the process.
	runtime.LockOSThread()
	again := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	again.Env = append(os.Environ(), inside+"="+dir)
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS, Pdeathsig: syscall.SIGKILL,
	}
	again.Cancel, again.WaitDelay = func() error { return again.Process.Signal(syscall.SIGTERM) }, 2*endTimeout
	if err := again.Run(); err != nil {
		return fmt.Errorf("inside the network namespace: %w", err)
	}
	return nil
}

// Addresses of the node.
const (
	// Address is the node's own.
	Address = "198.51.100.1"
	gateway = "198.51.100.254"
	// AnyAddress is a range whose addresses are all the node's: what listens everywhere is each endpoint.
	AnyAddress = "10.128.0.0/10"
)

// prepare sets up the namespaces of this process, with a default route to nowhere.
func prepare(ctx context.Context, dir string) error {
	for _, mount := range []struct {
		source, target, kind string
		flags                uintptr
	}{{"", "/", "", unix.MS_REC | unix.MS_PRIVATE}, {"proc", "/proc", "proc", 0}} {
		if err := unix.Mount(mount.source, mount.target, mount.kind, mount.flags, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", mount.target, err)
		}
	}
	if err := unix.Sethostname([]byte(Name)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o700); err != nil {
		return err
	}
	for _, arguments := range []string{
		"link set lo up",
		"link add eth0 type veth peer name peer0",
		"addr add " + Address + "/24 dev eth0",
		"link set eth0 up",
		"link set peer0 up",
		"route add default via " + gateway,
		"neigh add " + gateway + " lladdr 02:00:00:00:00:01 dev eth0",
		"route add local " + AnyAddress + " dev lo",
	} {
		if out, err := exec.CommandContext(ctx, "ip", strings.Fields(arguments)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", arguments, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}
