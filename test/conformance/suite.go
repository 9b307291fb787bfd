package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// suiteModule is the folder of the module whose requirements include the suite.
const suiteModule = "test/conformance/suite"

// The packages of the programs, and their names in the cache.
const (
	testsPackage   = "k8s.io/kubernetes/test/e2e"
	kubectlPackage = "k8s.io/kubernetes/cmd/kubectl"
	testsName      = "e2e.test"
	kubectlName    = "kubectl"
)

// buildBeat is how often a build reports that it goes on.
const buildBeat = time.Minute

// suite has the paths of the suite's programs, and its version.
type suite struct{ tests, kubectl, version string }

// build returns the suite, which it builds unless the cache has this version. It must run in the
// repository's root.
func build(ctx context.Context, cache string) (suite, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	list.Dir, list.Stderr = suiteModule, os.Stderr
	out, err := list.Output()
	if err != nil {
		return suite{}, fmt.Errorf("finding the suite's version, which must be done in the repository's root: %w", err)
	}
	version := strings.TrimSpace(string(out))
	dir := filepath.Join(cache, version)
	s := suite{tests: filepath.Join(dir, testsName), kubectl: filepath.Join(dir, kubectlName), version: version}
	flags := "-ldflags=" + linkerFlags(version)
	for _, program := range []struct {
		path string
		args []string
	}{
		// Vet would multiply the time.
		{s.tests, []string{"test", "-c", "-vet=off", flags, testsPackage}},
		{s.kubectl, []string{"build", flags, kubectlPackage}},
	} {
		if err := compile(ctx, suiteModule, program.path, program.args); err != nil {
			return suite{}, err
		}
	}
	return s, nil
}

// linkerFlags stamps the programs with their version, as Kubernetes' own build does.
func linkerFlags(version string) string {
	const stamp = "k8s.io/component-base/version."
	numbers := strings.Split(strings.TrimPrefix(version, "v"), ".")
	flags := []string{"-s", "-w", "-X", stamp + "gitVersion=" + version, "-X", stamp + "gitTreeState=clean"}
	if len(numbers) > 1 {
		flags = append(flags, "-X", stamp+"gitMajor="+numbers[0], "-X", stamp+"gitMinor="+numbers[1])
	}
	return strings.Join(flags, " ")
}

// compile builds a program of a module at a path, unless there is one.
func compile(ctx context.Context, module, path string, args []string) error {
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("creating the folder for the suite: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	say := func() {
		fmt.Printf("building %s, which takes minutes the first time (%s so far)\n", path, time.Since(began).Round(time.Second))
	}
	say()
	ended := make(chan struct{})
	defer func() { cancel(); <-ended }()
	go func() {
		defer close(ended)
		every(ctx, buildBeat, say)
	}()
	// A build that is interrupted must not leave a program at the path.
	unfinished := path + ".unfinished"
	args = append([]string{args[0], "-o", unfinished}, args[1:]...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = module, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s: %w", filepath.Base(path), err)
	}
	return os.Rename(unfinished, path)
}

// every calls a function at intervals until ctx ends.
func every(ctx context.Context, interval time.Duration, call func()) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			call()
		}
	}
}
