package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestDescribed(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--root", "/r", "create", "--bundle", "/b", "--pid-file", "p", "id"}, "/b/config.json"},
		{[]string{"create", "-b=/b", "id"}, "/b/config.json"},
		{[]string{"run", "id"}, "config.json"},
		{[]string{"--log", "l", "exec", "--process", "/p.json", "--detach", "id"}, "/p.json"},
		{[]string{"exec", "id", "sh"}, ""},
		{[]string{"--root", "/r", "delete", "--force", "id"}, ""},
		{nil, ""},
	} {
		if got := described(c.args); got != c.want {
			t.Errorf("%v: got %q, want %q", c.args, got, c.want)
		}
	}
}

// TestFit checks that what a machine cannot grant is removed, and nothing else.
func TestFit(t *testing.T) {
	const process = `{"args":["sh"],"capabilities":{"bounding":["CAP_CHOWN","CAP_SYS_RESOURCE","CAP_NEWER"],"effective":["CAP_SYS_RESOURCE"]},` +
		`"oomScoreAdj":-998,"rlimits":[{"type":"RLIMIT_NOFILE","hard":1048576,"soft":30000},{"type":"RLIMIT_CORE","hard":9,"soft":8}]}`
	const lacking, all = 0x1fffeffffff, 0x1ffffffffff
	want := map[string]any{
		"args":         []any{"sh"},
		"capabilities": map[string]any{"bounding": []any{"CAP_CHOWN"}, "effective": []any{}},
		"oomScoreAdj":  float64(0),
		"rlimits": []any{
			map[string]any{"type": "RLIMIT_NOFILE", "hard": float64(20000), "soft": float64(20000)},
			map[string]any{"type": "RLIMIT_CORE", "hard": float64(9), "soft": float64(8)},
		},
	}
	whole := `{"ociVersion":"1.0.2","process":` + process + `,"linux":{"rootfsPropagation":"rslave"}}`
	for name, c := range map[string]struct {
		data    string
		allowed bounds
		want    any
	}{
		"a process":          {process, bounds{lacking, 0, 20000}, want},
		"a container":        {whole, bounds{lacking, 0, 20000}, map[string]any{"ociVersion": "1.0.2", "process": want, "linux": map[string]any{"rootfsPropagation": "rslave"}}},
		"nothing requested":  {`{"process":{"args":["sh"]}}`, bounds{lacking, 0, 20000}, map[string]any{"process": map[string]any{"args": []any{"sh"}}}},
		"everything granted": {`{"oomScoreAdj":-998,"capabilities":{"bounding":["CAP_SYS_RESOURCE"]}}`, bounds{all, 0, 20000}, map[string]any{"oomScoreAdj": float64(-998), "capabilities": map[string]any{"bounding": []any{"CAP_SYS_RESOURCE"}}}},
	} {
		fitted, err := fit([]byte(c.data), c.allowed)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got any
		if err := json.Unmarshal(fitted, &got); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %s, %v", name, fitted, err)
		}
	}
	for _, bad := range []string{"", "[]", `{"process":7}`, `{"capabilities":7}`, `{"oomScoreAdj":"x"}`, `{"rlimits":{}}`} {
		if fitted, err := fit([]byte(bad), bounds{capabilities: lacking}); err == nil {
			t.Errorf("%q was accepted: %s", bad, fitted)
		}
	}
}

func TestCapabilities(t *testing.T) {
	numbers := capabilities()
	if len(numbers) != 41 || numbers["CHOWN"] != 0 || numbers["SYS_RESOURCE"] != capSysResource || numbers["CHECKPOINT_RESTORE"] != 40 {
		t.Errorf("got %v", numbers)
	}
}

// TestRewrite checks that a file is rewritten in place, and that an unreadable file is an error.
func TestRewrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	if err := rewrite(file, bounds{}); err == nil {
		t.Error("a missing file was read")
	}
	if err := os.WriteFile(file, []byte(`{"process":{"oomScoreAdj":-1}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	own, err := ownBounds()
	if err != nil {
		t.Fatal(err)
	}
	own.capabilities, own.score = 0, 5
	if err := rewrite(file, own); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != `{"process":{"oomScoreAdj":5}}` {
		t.Errorf("%s, %v", data, err)
	}
}
