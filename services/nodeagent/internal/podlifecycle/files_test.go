package podlifecycle

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/nodeagent/internal/podfiles"
	"github.com/garboard/garboard/services/nodeagent/internal/status"
	"github.com/garboard/garboard/services/nodeagent/internal/volumes"
)

func newLifecycle(t *testing.T) *Lifecycle {
	dir := t.TempDir()
	return New(Config{
		Volumes: volumes.New(volumes.Config{Dir: filepath.Join(dir, "pods"), Client: fake.New(scheme.New()), Simulated: true}),
		LogDir:  filepath.Join(dir, "logs"), SeccompDir: "/data/seccomp", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
}

func newPod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}}
}

// TestMountsAreReadOnly mounts each kind of volume writable and read-only.
func TestMountsAreReadOnly(t *testing.T) {
	l := newLifecycle(t)
	pod := newPod()
	if err := os.MkdirAll(l.cfg.Volumes.PodDir("u"), 0o755); err != nil {
		t.Fatal(err)
	}
	forced := map[string]bool{"configmap": true, "secret": true, "downward": true, "projected": true, "empty": false, "host": false}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "configmap", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
		{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}},
		{Name: "downward", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}},
		{Name: "projected", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
		{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}},
	}
	s := start{pod: pod, volumes: map[string]string{}}
	for _, v := range pod.Spec.Volumes {
		s.volumes[v.Name] = t.TempDir()
		for _, asked := range []bool{false, true} {
			for _, sub := range []string{"", "sub"} {
				c := &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: v.Name, MountPath: "/v", ReadOnly: asked, SubPath: sub}}}
				mounts, err := l.mounts(s, c, nil, 0)
				if err != nil {
					t.Fatal(err)
				}
				if want := asked || forced[v.Name]; mounts[0].ReadOnly != want {
					t.Errorf("%s, readOnly: %v, subPath %q: it is mounted with readOnly %v, want %v", v.Name, asked, sub, mounts[0].ReadOnly, want)
				}
			}
		}
	}
}

func TestSubPathExpr(t *testing.T) {
	l := newLifecycle(t)
	s := start{pod: newPod(), volumes: map[string]string{"v": t.TempDir()}}
	for expr, want := range map[string]string{"a-$(NAME)": "a-x", "$(NONE)": "", "$(UP)/etc": "", "$(ABSOLUTE)": ""} {
		c := &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v", SubPathExpr: expr}}}
		mount, err := l.volumeMount(s, c, 0, map[string]string{"NAME": "x", "UP": "..", "ABSOLUTE": "/etc"})
		if (err == nil) != (want != "") || err == nil && filepath.Base(mount.HostPath) != want {
			t.Errorf("%s is mounted from %q, %v", expr, mount.HostPath, err)
		}
	}
}

// TestHostsFileIsOnlyWritten: a container manipulates its /etc/hosts in every way it can.
func TestHostsFileIsOnlyWritten(t *testing.T) {
	l := newLifecycle(t)
	pod := newPod()
	if err := os.MkdirAll(l.cfg.Volumes.PodDir("u"), 0o755); err != nil {
		t.Fatal(err)
	}
	path, err := l.writeHosts(pod)
	if err != nil {
		t.Fatal(err)
	}
	inode := func() uint64 {
		var s syscall.Stat_t
		if err := syscall.Stat(path, &s); err != nil {
			t.Fatal(err)
		}
		return s.Ino
	}
	before := inode()
	for name, hostile := range map[string]func() error{
		"endless": func() error { return os.Truncate(path, 1<<40) },
		"empty":   func() error { return os.Truncate(path, 0) },
		"longer": func() error {
			return os.WriteFile(path, []byte(strings.Repeat("127.0.0.1 bank.example\n", 1000)), 0o644)
		},
		"locked": func() error { return os.Chmod(path, 0) },
	} {
		if err := hostile(); err != nil {
			t.Fatal(err)
		}
		var start, end goruntime.MemStats
		goruntime.ReadMemStats(&start)
		if _, err := l.writeHosts(pod); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		goruntime.ReadMemStats(&end)
		if used := end.TotalAlloc - start.TotalAlloc; used > 1<<20 {
			t.Errorf("%s: writing took %d bytes of memory", name, used)
		}
		text, err := os.ReadFile(path)
		if info, statErr := os.Stat(path); err != nil || string(text) != l.hosts(pod) || statErr != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: the file holds %q, %v %v", name, text, info, err)
		}
	}
	if inode() != before {
		t.Error("the written file is not the one that containers have mounted")
	}
	if err := errors.Join(os.Remove(path), os.Symlink(filepath.Join(t.TempDir(), "target"), path)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.writeHosts(pod); err == nil {
		t.Error("a link was followed")
	}
}

func TestReasonsAreBounded(t *testing.T) {
	l, pod := newLifecycle(t), newPod()
	l.setReason(pod, "c0", status.Reason{Reason: "ErrImagePull", Message: strings.Repeat("é", 1<<20)})
	if reason, _ := l.reason("u", "c0"); len(reason.Message) > podfiles.MaxMessage || !utf8.ValidString(reason.Message) {
		t.Errorf("the reason's message has %d bytes", len(reason.Message))
	}
}

func TestSeccompProfilesOfTheNode(t *testing.T) {
	l := newLifecycle(t)
	for profile, want := range map[string]string{
		"audit.json": "/data/seccomp/audit.json", "team/a.json": "/data/seccomp/team/a.json",
		"../../etc/passwd": "/data/seccomp/etc/passwd", "/etc/passwd": "/data/seccomp/etc/passwd",
	} {
		p := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: &profile}
		pod := newPod()
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: p}
		if got := l.security(pod, &corev1.Container{}).Seccomp; got.Type != "Localhost" || got.LocalhostRef != want {
			t.Errorf("the pod's profile %s is %+v, want %s", profile, got, want)
		}
		c := &corev1.Container{SecurityContext: &corev1.SecurityContext{SeccompProfile: p}}
		if got := l.security(newPod(), c).Seccomp; got.Type != "Localhost" || got.LocalhostRef != want {
			t.Errorf("the container's profile %s is %+v, want %s", profile, got, want)
		}
	}
}

// shouting runs commands that print a secret and fail.
type shouting struct{ Runtime }

func (shouting) ExecSync(context.Context, string, []string, time.Duration) ([]byte, []byte, int32, error) {
	return []byte("opensesame"), []byte(strings.Repeat("e", 2<<20)), 3, nil
}

func (shouting) StopContainer(context.Context, string, time.Duration) error { return nil }

func TestHookDoesNotTellWhatItPrinted(t *testing.T) {
	l := newLifecycle(t)
	l.cfg.Runtime = shouting{}
	c := &corev1.Container{Name: "c", Lifecycle: &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"init"}}}}}
	err := l.postStart(t.Context(), newPod(), c, "id")
	wait, ok := errors.AsType[*waitError](err)
	if !ok || wait.Reason.Reason != reasonHookError {
		t.Fatalf("the error is %v", err)
	}
	if strings.Contains(wait.Message, "opensesame") || len(wait.Message) > 1000 || !strings.Contains(wait.Message, "exited with 3") {
		t.Errorf("the message has %d bytes: %.200q", len(wait.Message), wait.Message)
	}
}

// TestHookFollowsNobodyElsewhere: a pod's server redirects the node to another host.
func TestHookFollowsNobodyElsewhere(t *testing.T) {
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked[r.Host+r.URL.Path]++
		switch r.URL.Path {
		case "/elsewhere":
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/there", http.StatusFound)
		}
	}))
	defer server.Close()
	l := newLifecycle(t)
	// Every address is the server's.
	l.cfg.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	pod := newPod()
	pod.Status.PodIP = "10.0.0.1"
	for _, path := range []string{"/elsewhere", "/here"} {
		if err := l.httpHook(t.Context(), pod, &corev1.Container{}, &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(80)}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if asked["169.254.169.254/latest"] != 0 || asked["10.0.0.1:80/there"] != 1 || len(asked) != 3 {
		t.Errorf("the requests were %v", asked)
	}
}
