package podnetwork

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const confIPv4 = `{
  "cniVersion": "1.0.0",
  "name": "garboard",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "gb-pods",
      "mtu": 1450,
      "isGateway": true,
      "hairpinMode": true,
      "ipam": {
        "type": "host-local",
        "ranges": [
          [
            {
              "subnet": "10.244.1.0/24"
            }
          ]
        ],
        "routes": [
          {
            "dst": "0.0.0.0/0"
          }
        ]
      }
    },
    {
      "type": "portmap",
      "capabilities": {
        "portMappings": true
      },
      "snat": true
    },
    {
      "type": "bandwidth",
      "capabilities": {
        "bandwidth": true
      }
    }
  ]
}
`

const confDual = `{
  "cniVersion": "1.0.0",
  "name": "garboard",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "pods0",
      "mtu": 1500,
      "isGateway": true,
      "hairpinMode": true,
      "ipam": {
        "type": "host-local",
        "ranges": [
          [
            {
              "subnet": "10.244.1.0/24"
            }
          ],
          [
            {
              "subnet": "fd01::/64"
            }
          ]
        ],
        "routes": [
          {
            "dst": "0.0.0.0/0"
          },
          {
            "dst": "::/0"
          }
        ],
        "dataDir": "/data/cni"
      }
    },
    {
      "type": "portmap",
      "capabilities": {
        "portMappings": true
      },
      "snat": true
    },
    {
      "type": "bandwidth",
      "capabilities": {
        "bandwidth": true
      }
    }
  ]
}
`

func TestConfiguration(t *testing.T) {
	for _, tc := range []struct {
		name            string
		plan            Plan
		bridge, dataDir string
		want            string
	}{
		{"IPv4", Plan{CIDRs: prefixes("10.244.1.0/24"), MTU: 1450}, DefaultBridge, "", confIPv4},
		{"dual stack", Plan{CIDRs: prefixes("10.244.1.0/24 fd01::/64"), MTU: 1500}, "pods0", "/data/cni", confDual},
	} {
		got, err := configuration(&tc.plan, tc.bridge, tc.dataDir)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: %v\n%s", tc.name, err, got)
		}
	}
}

func TestWriteConfiguration(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cni", "net.d") // It does not exist.
	path := filepath.Join(dir, confName)
	write := func(content string) os.FileInfo {
		t.Helper()
		if err := writeConfiguration(dir, []byte(content)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != content {
			t.Fatalf("the file has %q: %v", text, err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Fatalf("the folder has %v: %v", files, err)
		}
		return info
	}
	first := write("one")
	if again := write("one"); !os.SameFile(first, again) {
		t.Error("what does not change was written again")
	}
	if changed := write("two"); os.SameFile(first, changed) || changed.Mode().Perm() != 0o644 {
		t.Errorf("the file was not replaced by a new one: %v", changed.Mode())
	}
	if err := os.WriteFile(filepath.Join(dir, "."+confName+".new"), []byte("half a fi"), 0o644); err != nil {
		t.Fatal(err)
	}
	write("three") // The rest of an earlier attempt does no harm.
	for range 2 {
		if err := removeConfiguration(dir); err != nil {
			t.Fatal(err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("the folder has %v: %v", files, err)
	}
}

func TestConfigurationWithoutAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeConfiguration(file, []byte("x")); err == nil {
		t.Error("wrote into a file")
	}
	if err := removeConfiguration(filepath.Join(file, "missing")); err == nil {
		t.Error("no error about a folder that is a file")
	}
	if err := removeConfiguration(filepath.Join(t.TempDir(), "missing")); err != nil {
		t.Errorf("a missing folder: %v", err)
	}
	taken := t.TempDir()
	if err := os.MkdirAll(filepath.Join(taken, confName, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeConfiguration(taken, []byte("x")); err == nil {
		t.Error("replaced a folder")
	}
}

func TestShadowing(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files []string
		want  string
	}{
		{"nothing", nil, ""},
		{"ours alone", []string{confName}, ""},
		{"one after ours", []string{confName, "20-flannel.conflist"}, ""},
		{"one before ours", []string{"05-cilium.conflist", confName}, "05-cilium.conflist"},
		{"the first of two", []string{"10-calico.conf", "05-cilium.json", confName}, "05-cilium.json"},
		{"one, but not ours", []string{"87-podman.conflist"}, "87-podman.conflist"},
		{"files that runtimes ignore", []string{"00-readme.md", "05-cilium.conflist.bak", "." + confName + ".new", confName}, ""},
		{"a hidden file, which runtimes use", []string{".hidden.conf", confName}, ".hidden.conf"},
		{"a folder", []string{"05-old.conf/", confName}, ""},
	} {
		dir := t.TempDir()
		for _, file := range tc.files {
			path := filepath.Join(dir, file)
			var err error
			if file[len(file)-1] == '/' {
				err = os.Mkdir(path, 0o755)
			} else {
				err = os.WriteFile(path, nil, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := shadowing(dir); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
	if got := shadowing(filepath.Join(t.TempDir(), "missing")); got != "" {
		t.Errorf("a missing folder: got %q", got)
	}
}

// TestAHalfWrittenFileIsNeverSeen: a reader sees one content or the other.
func TestAHalfWrittenFileIsNeverSeen(t *testing.T) {
	dir := t.TempDir()
	contents := []string{confIPv4, confDual}
	if err := writeConfiguration(dir, []byte(contents[0])); err != nil {
		t.Fatal(err)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			if err := writeConfiguration(dir, []byte(contents[i%2])); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for range 2000 {
		if text, err := os.ReadFile(filepath.Join(dir, confName)); err != nil || !slices.Contains(contents, string(text)) {
			t.Errorf("read %q: %v", text, err)
			break
		}
	}
	close(done)
	<-ended
}
