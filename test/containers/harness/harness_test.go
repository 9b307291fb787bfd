package harness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// victimVariable makes TestVictim start containerd and wait to be killed.
const victimVariable = "GARBOARD_TEST_VICTIM"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRegistry checks that served content matches its digests, and that credentials are enforced.
func TestRegistry(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRegistry()
	image := Image{Repository: "library/app", Tags: []string{"1", "latest"}, Binary: program, Path: "/bin/app", Links: []string{"/bin/other"},
		Files: map[string]string{"/etc/app/conf": "x"}, Entrypoint: []string{"/bin/app"}, Env: []string{"A=b"}}
	if err := r.push(image); err != nil {
		t.Fatal(err)
	}
	image.Repository, image.Username, image.Password = "private/app", "user", "password"
	if err := r.push(image); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(r)
	defer server.Close()
	client := server.Client()
	get := func(path, user string) (int, []byte) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			request.SetBasicAuth(user, "password")
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		var body strings.Builder
		if _, err := bufio.NewReader(response.Body).WriteTo(&body); err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, []byte(body.String())
	}
	var manifest struct {
		Config, Layer struct{ Digest string }
		Layers        []struct{ Digest string }
	}
	code, content := get("/v2/library/app/manifests/1", "")
	if err := json.Unmarshal(content, &manifest); err != nil || code != http.StatusOK || len(manifest.Layers) != 1 {
		t.Fatalf("got the manifest %d %s: %v", code, content, err)
	}
	if _, again := get("/v2/library/app/manifests/"+digest(content), ""); string(again) != string(content) {
		t.Errorf("got another manifest by digest: %s", again)
	}
	for _, wanted := range []string{manifest.Config.Digest, manifest.Layers[0].Digest} {
		if code, blob := get("/v2/library/app/blobs/"+wanted, ""); code != http.StatusOK || digest(blob) != wanted {
			t.Errorf("the blob %s: got %d with the digest %s", wanted, code, digest(blob))
		}
	}
	for path, want := range map[string]int{
		"/v2/": http.StatusOK, "/v3/": http.StatusNotFound, "/v2/library/app/tags/list": http.StatusNotFound,
		"/v2/library/app/manifests/2": http.StatusNotFound, "/v2/library/none/manifests/1": http.StatusNotFound,
		"/v2/private/app/manifests/1": http.StatusUnauthorized,
	} {
		if code, body := get(path, ""); code != want {
			t.Errorf("%s: got %d: %s", path, code, body)
		}
	}
	if code, _ := get("/v2/private/app/manifests/1", "user"); code != http.StatusOK {
		t.Errorf("got %d for the private manifest with credentials", code)
	}
	if pulls := r.pulled("library/app"); pulls != 2 {
		t.Errorf("got %d pulls, want 2", pulls)
	}
}

func TestFreeNetwork(t *testing.T) {
	n, err := freeNetwork()
	if err != nil {
		t.Fatal(err)
	}
	if n.subnet.Bits() != 24 || len(n.bridge) > 15 {
		t.Errorf("got the network %+v", n)
	}
	if !json.Valid([]byte(n.conflist("/tmp/x"))) {
		t.Errorf("the network's configuration is not JSON: %s", n.conflist("/tmp/x"))
	}
}

// TestVictim is the process that TestSweep kills.
func TestVictim(t *testing.T) {
	if os.Getenv(victimVariable) == "" {
		return
	}
	c := Start(t)
	fmt.Printf("ready %s %s\n", c.dir, c.network.bridge)
	select {}
}

// TestSweep checks that the next test cleans up after one that was killed.
func TestSweep(t *testing.T) {
	Require(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	victim := exec.Command(program, "-test.run", "^TestVictim$")
	victim.Env = append(os.Environ(), victimVariable+"=1")
	output, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	victim.Stderr = os.Stderr
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	var dir, bridge string
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if n, err := fmt.Sscanf(lines.Text(), "ready %s %s", &dir, &bridge); n == 2 && err == nil {
			break
		}
	}
	_ = victim.Process.Kill()
	_ = victim.Wait() // it was killed
	if dir == "" {
		t.Fatal("the victim did not start")
	}
	if len(processesOf(dir)) == 0 {
		t.Fatal("the victim's containerd ended with it, so there is nothing to sweep")
	}
	sweep(t)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder %s still exists: %v", dir, err)
	}
	if left := processesOf(dir); len(left) > 0 {
		t.Errorf("processes are still running: %v", left)
	}
	if _, err := net.InterfaceByName(bridge); err == nil {
		t.Errorf("the bridge %s still exists", bridge)
	}
}
