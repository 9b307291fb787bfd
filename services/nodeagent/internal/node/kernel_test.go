package node

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestHugePageSizes(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"hugepages-2048kB", "hugepages-1048576kB", "hugepages-64kB", "hugepages-64", "other"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := hugePageSizes(dir); !slices.Equal(got, []string{"1GB", "2MB", "64KB"}) {
		t.Errorf("sizes %q", got)
	}
	if got := hugePageSizes(filepath.Join(dir, "none")); got != nil {
		t.Errorf("a kernel without huge pages has sizes %q", got)
	}
}

func TestThrottlePaths(t *testing.T) {
	dir := t.TempDir()
	want := filepath.Join(dir, "cpu1", "thermal_throttle")
	for _, name := range []string{want, filepath.Join(dir, "cpu0"), filepath.Join(dir, "cpufreq", "thermal_throttle")} {
		if err := os.MkdirAll(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := throttlePaths(dir); !slices.Equal(got, []string{want}) {
		t.Errorf("paths %q", got)
	}
}
