package localvolumes

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/localvolume"
	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is Folders on an API in memory.
type world struct {
	*Folders
	t   *testing.T
	api *fake.Client
	// reported are the lists that were written to the node's status; report, unless nil, is called before.
	reported [][]corev1.UniqueVolumeName
	report   func() error
	used     sync.Map // names of volumes that pods use
	// refuse, unless nil, answers in place of the API.
	refuse error
}

// answering is a client that can refuse.
type answering struct {
	client.Interface
	w *world
}

func (a answering) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	if a.w.refuse != nil {
		return a.w.refuse
	}
	return a.Interface.Do(ctx, call, into)
}

func newWorld(t *testing.T, objs ...scheme.Object) *world {
	w := &world{t: t, api: fake.New(scheme.New(), objs...)}
	w.Folders = New(Config{
		Dir: filepath.Join(t.TempDir(), "volumes"), NodeName: "n1", Client: answering{w.api, w}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Report: func(context.Context) error {
			if w.report != nil {
				if err := w.report(); err != nil {
					return err
				}
			}
			list, err := w.List()
			w.reported = append(w.reported, list)
			return err
		},
		InUse: func(name string) (bool, error) {
			_, used := w.used.Load(name)
			return used, nil
		},
	})
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.cfg.Dir, name) }

func aVolume(dir string, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-1", UID: "uid", Annotations: map[string]string{volume.AnnDynamicallyProvisioned: localvolume.Provisioner},
			Finalizers: []string{localvolume.Finalizer},
		},
		Spec: corev1.PersistentVolumeSpec{
			NodeAffinity: localvolume.OnHost("n1"), PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: filepath.Join(dir, "pvc-1")}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	for _, f := range change {
		f(v)
	}
	return v
}

func deleted(v *corev1.PersistentVolume) {
	v.Status.Phase, v.DeletionTimestamp = corev1.VolumeReleased, &metav1.Time{Time: time.Unix(1, 0)}
}

func (w *world) load(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	w.t.Helper()
	w.api.Load(v)
	return v
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// fill writes a file into a new folder.
func (w *world) fill(name string) {
	w.t.Helper()
	if err := errors.Join(os.MkdirAll(w.path(name), 0o755), os.WriteFile(filepath.Join(w.path(name), "data"), []byte("x"), 0o600)); err != nil {
		w.t.Fatal(err)
	}
}

// TestFirstUse: the status lists a volume before its folder exists, and the folder is open to all.
func TestFirstUse(t *testing.T) {
	w := newWorld(t)
	v := w.load(aVolume(w.cfg.Dir))
	w.report = func() error {
		if exists(w.path("pvc-1")) {
			t.Error("the folder exists before the volume is listed")
		}
		return nil
	}
	path, err := w.Provide(t.Context(), v)
	if err != nil || path != v.Spec.Local.Path {
		t.Fatalf("%q, %v", path, err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != os.ModeDir|os.ModePerm {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	want := []corev1.UniqueVolumeName{"kubernetes.io/local-volume/pvc-1"}
	if len(w.reported) != 1 || !slices.Equal(w.reported[0], want) {
		t.Errorf("reported %v", w.reported)
	}
	if list, err := w.List(); err != nil || !slices.Equal(list, want) {
		t.Errorf("lists %v, %v", list, err)
	}
	if err := os.WriteFile(filepath.Join(path, "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Provide(t.Context(), v); err != nil || !exists(filepath.Join(path, "kept")) || len(w.reported) != 1 {
		t.Errorf("the second use: %v, reported %v", err, w.reported)
	}
}

// TestNoFolderWithoutAList: what the status could not list, or was deleted meanwhile, gets no folder.
func TestNoFolderWithoutAList(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*corev1.PersistentVolume)
		report error
		want   string
	}{
		"not reported": {func(*corev1.PersistentVolume) {}, errors.New("no API"), "listing the volume in the node's status: no API"},
		"deleted":      {deleted, nil, "is being deleted"},
		"another now":  {func(v *corev1.PersistentVolume) { v.UID = "other" }, nil, "is being deleted"},
		"gone":         {func(v *corev1.PersistentVolume) { v.Name = "pvc-2" }, nil, "not found"},
	} {
		w := newWorld(t)
		w.report = func() error { return tt.report }
		w.load(aVolume(w.cfg.Dir, tt.change))
		_, err := w.Provide(t.Context(), aVolume(w.cfg.Dir))
		if err == nil || !strings.Contains(err.Error(), tt.want) || exists(w.path("pvc-1")) {
			t.Errorf("%s: %v", name, err)
		}
		if list, err := w.List(); err != nil || len(list) != 0 {
			t.Errorf("%s: lists %v, %v", name, list, err)
		}
	}
}

// TestPathsOutside: no path leads out of the directory.
func TestPathsOutside(t *testing.T) {
	w := newWorld(t)
	w.fill("pvc-other")
	outside := t.TempDir()
	if err := errors.Join(os.Symlink(outside, w.path("pvc-link")), os.WriteFile(w.path("pvc-file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	dir := w.cfg.Dir
	for path, want := range map[string]string{
		outside: "is not a folder directly in", "/": "is not a folder directly in", "": "is not a folder directly in", "pvc-other": "is not a folder directly in",
		dir: "is not a folder directly in", dir + "/": "is not a folder directly in", dir + "/..": "is not a folder directly in",
		dir + "/../volumes/pvc-other": "is not a folder directly in", dir + "/pvc-other/data": "is not a folder directly in",
		dir + "/pvc-other/../pvc-other": "is not a folder directly in", dir + "/.new-pvc-other": "is not a folder directly in",
		dir + "x/pvc-other": "is not a folder directly in", dir + "/pvc-link": "is a link", dir + "/pvc-file": "is not a directory",
		dir + "/disk": "does not exist", dir + "/pvc-missing": "does not exist", dir + "/pvc-other": "",
	} {
		v := aVolume(dir, func(v *corev1.PersistentVolume) { v.Spec.Local.Path = path })
		_, err := w.Provide(t.Context(), v)
		if got := ""; err != nil {
			if got = err.Error(); want == "" || !strings.Contains(got, want) {
				t.Errorf("%q: %v, want %q", path, err, want)
			}
		} else if want != "" {
			t.Errorf("%q is provided", path)
		}
	}
	byHand := aVolume(dir, func(v *corev1.PersistentVolume) { v.Annotations = nil })
	if _, err := w.Provide(t.Context(), byHand); err == nil || exists(w.path("pvc-1")) {
		t.Errorf("a folder was created for a volume that the provisioner did not make: %v", err)
	}
	w.cfg.Dir = ""
	if _, err := w.Provide(t.Context(), byHand); err == nil || !strings.Contains(err.Error(), "no folder for local volumes") {
		t.Errorf("without a directory: %v", err)
	}
}

func TestANodeHasABoundedNumberOfVolumes(t *testing.T) {
	w := newWorld(t)
	for i := range maxFolders {
		if err := os.MkdirAll(w.path(prefix+"x"+string(rune('a'+i%26))+strings.Repeat("y", i/26)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Provide(t.Context(), w.load(aVolume(w.cfg.Dir))); err == nil || !strings.Contains(err.Error(), "at most 1000") {
		t.Errorf("got %v", err)
	}
}

// TestOnlyDeletedVolumesGo: a folder is removed only if the API says that its volume is deleted.
func TestOnlyDeletedVolumesGo(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("persistentvolumes"), "pvc-1", errors.New("no relationship"))
	for name, tt := range map[string]struct {
		change  []func(*corev1.PersistentVolume)
		refuse  error
		used    bool
		removed bool
		state   state
		fault   bool
	}{
		"deleted":           {change: []func(*corev1.PersistentVolume){deleted}, removed: true},
		"bound":             {change: []func(*corev1.PersistentVolume){func(*corev1.PersistentVolume) {}}, state: idle},
		"in use":            {change: []func(*corev1.PersistentVolume){deleted}, used: true, state: used},
		"of another node":   {change: []func(*corev1.PersistentVolume){deleted, func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = localvolume.OnHost("n2") }}, state: idle},
		"at another path":   {change: []func(*corev1.PersistentVolume){deleted, func(v *corev1.PersistentVolume) { v.Spec.Local.Path = "/other/pvc-1" }}, state: idle},
		"retained":          {change: []func(*corev1.PersistentVolume){deleted, func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeReclaimPolicy = "Retain" }}, state: idle},
		"unknown":           {state: unknown},
		"not to be read":    {change: []func(*corev1.PersistentVolume){deleted}, refuse: forbidden, state: unknown},
		"the API is silent": {change: []func(*corev1.PersistentVolume){deleted}, refuse: errors.New("connection refused"), fault: true},
	} {
		w := newWorld(t)
		w.fill("pvc-1")
		if len(tt.change) > 0 {
			w.load(aVolume(w.cfg.Dir, tt.change...))
		}
		w.refuse = tt.refuse
		if tt.used {
			w.used.Store("pvc-1", true)
		}
		err := w.sweep(t.Context())
		if (err != nil) != tt.fault || exists(w.path("pvc-1")) == tt.removed || w.asked["pvc-1"].state != tt.state {
			t.Errorf("%s: %v, the folder is there: %v, state %q", name, err, exists(w.path("pvc-1")), w.asked["pvc-1"].state)
		}
		if tt.removed && (len(w.reported) != 1 || len(w.reported[0]) != 0) {
			t.Errorf("%s: reported %v", name, w.reported)
		}
	}
}

// TestFoldersThatAreNotOurs: what the provisioner did not name is neither listed nor asked about.
func TestFoldersThatAreNotOurs(t *testing.T) {
	w := newWorld(t)
	w.fill("disk")
	w.fill(".new-pvc-9")
	w.refuse = errors.New("asked")
	if err := w.sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if list, err := w.List(); err != nil || len(list) != 0 {
		t.Errorf("lists %v, %v", list, err)
	}
}

// TestAnUnreadableDirectory: nobody knows which folders exist, so none is given up.
func TestAnUnreadableDirectory(t *testing.T) {
	w := newWorld(t)
	if err := os.WriteFile(w.cfg.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := w.List(); err == nil {
		t.Errorf("lists %v", list)
	}
}

func TestRunRemovesInTheEnd(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.cfg.Dir = filepath.Join(dir, "volumes")
		w.fill("pvc-1")
		w.used.Store("pvc-1", true)
		w.load(aVolume(w.cfg.Dir, deleted))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		time.Sleep(5 * sweepPeriod)
		synctest.Wait()
		if !exists(w.path("pvc-1")) {
			t.Error("the folder of a pod was removed")
		}
		w.used.Delete("pvc-1")
		time.Sleep(sweepPeriod + time.Second)
		synctest.Wait()
		if exists(w.path("pvc-1")) {
			t.Error("the folder is still there")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
