package volumes_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/nodeagent/internal/volumes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// references holds one ConfigMap, one Secret and no trust bundle.
type references struct {
	trustBundles
	data map[string]string
}

func (r references) ConfigMap(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
	if name != "cm" {
		return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
	}
	return &corev1.ConfigMap{Data: r.data}, nil
}

func (references) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	return &corev1.Secret{Data: map[string][]byte{"key": []byte(name)}}, nil
}

func newVolumes(t *testing.T, refs volumes.References) (*volumes.Volumes, *fake.Client, string) {
	api := fake.New(scheme.New(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}})
	dir := t.TempDir()
	return volumes.New(volumes.Config{
		Dir: dir, References: refs, Client: api, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Allocatable: func() corev1.ResourceList { return nil }, Simulated: true,
	}), api, dir
}

func withVolume(source corev1.VolumeSource) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u", Labels: map[string]string{"a": "1", "b": "2"}},
		Spec:       corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: source}}},
	}
}

func setup(t *testing.T, v *volumes.Volumes, pod *corev1.Pod) string {
	t.Helper()
	paths, errs := v.Setup(t.Context(), pod)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return paths["v"]
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestConfigMapFollowsItsSource(t *testing.T) {
	refs := references{data: map[string]string{"a": "1", "b": "2"}}
	v, _, _ := newVolumes(t, refs)
	pod := withVolume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}})
	dir := setup(t, v, pod)
	if read(t, dir, "a") != "1" || read(t, dir, "b") != "2" {
		t.Error("the files are not those of the ConfigMap")
	}
	first, err := os.Readlink(filepath.Join(dir, "..data"))
	if err != nil {
		t.Fatal(err)
	}
	setup(t, v, pod)
	if again, _ := os.Readlink(filepath.Join(dir, "..data")); again != first {
		t.Error("files that did not change were written again")
	}
	refs.data["a"] = "changed"
	delete(refs.data, "b")
	setup(t, v, pod)
	if read(t, dir, "a") != "changed" {
		t.Error("a change did not arrive")
	}
	if _, err := os.Lstat(filepath.Join(dir, "b")); !os.IsNotExist(err) {
		t.Errorf("a removed key still exists: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, first)); !os.IsNotExist(err) {
		t.Errorf("the old version still exists: %v", err)
	}
}

func TestItemsAndModes(t *testing.T) {
	v, _, _ := newVolumes(t, references{data: map[string]string{"a": "1", "b": "2"}})
	mode := int32(0o400)
	pod := withVolume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "cm"},
		Items:                []corev1.KeyToPath{{Key: "a", Path: "deep/er/file", Mode: &mode}},
	}})
	dir := setup(t, v, pod)
	if read(t, dir, "deep/er/file") != "1" {
		t.Error("the item is not where it should be")
	}
	info, err := os.Stat(filepath.Join(dir, "deep/er/file"))
	if err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	for _, path := range []string{"../out", "/abs", "..data/x", ".", "a/../..x"} {
		pod.Spec.Volumes[0].ConfigMap.Items[0].Path = path
		if _, errs := v.Setup(t.Context(), pod); len(errs) != 1 {
			t.Errorf("the path %q was accepted", path)
		}
	}
}

func TestMissingSources(t *testing.T) {
	v, _, _ := newVolumes(t, references{})
	source := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "gone"}}
	_, errs := v.Setup(t.Context(), withVolume(corev1.VolumeSource{ConfigMap: source}))
	if len(errs) != 1 || errs[0].Error() != `MountVolume.SetUp failed for volume "v" : configmaps "gone" not found` {
		t.Errorf("errors: %v", errs)
	}
	optional := true
	source.Optional = &optional
	if dir := setup(t, v, withVolume(corev1.VolumeSource{ConfigMap: source})); dir == "" {
		t.Error("an optional volume was not created")
	}
	file := corev1.HostPathFile
	_, errs = v.Setup(t.Context(), withVolume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: t.TempDir(), Type: &file}}))
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "is not a file") {
		t.Errorf("errors: %v", errs)
	}
}

func TestProjected(t *testing.T) {
	v, api, _ := newVolumes(t, references{data: map[string]string{"ca.crt": "CA"}})
	pod := withVolume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}},
			{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
		}}},
	}}})
	dir := setup(t, v, pod)
	if read(t, dir, "token") == "" || read(t, dir, "ca.crt") != "CA" || read(t, dir, "namespace") != "default" || read(t, dir, "labels") != "a=\"1\"\nb=\"2\"" {
		t.Error("a file is not what it should be")
	}
	setup(t, v, pod)
	asked := 0
	for _, call := range api.Calls() {
		if call.Subresource == "token" {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("%d tokens were requested, want 1", asked)
	}
}

func TestTokensAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.New(scheme.New(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}})
		var said bytes.Buffer
		v := volumes.New(volumes.Config{
			Dir: t.TempDir(), References: references{}, Client: api, Simulated: true, Logger: slog.New(slog.NewTextHandler(&said, nil)),
		})
		seconds := int64(600)
		pod := withVolume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
		}}})
		asked := func() (n int) {
			for _, call := range api.Calls() {
				if call.Subresource == "token" {
					n++
				}
			}
			return n
		}
		setup(t, v, pod)
		time.Sleep(7 * time.Minute)
		setup(t, v, pod)
		if asked() != 1 {
			t.Error("a token was renewed before 80 % of its life")
		}
		time.Sleep(90 * time.Second)
		setup(t, v, pod)
		if asked() != 2 {
			t.Error("a token was not renewed after 80 % of its life")
		}
		// While the apiserver is unavailable the old token stays, even after it expired; the log
		// then says so.
		api.Fail(func(client.Call) error { return errors.New("connection refused") })
		for range 30 {
			time.Sleep(time.Minute)
			setup(t, v, pod)
		}
		if n := strings.Count(said.String(), "a service account token expired and cannot be renewed"); n != 1 {
			t.Errorf("the log says %d times that the token expired, want once:\n%s", n, said.String())
		}
		// A missing account is an answer.
		api.Fail(func(client.Call) error { return apierrors.NewNotFound(corev1.Resource("serviceaccounts"), "default") })
		time.Sleep(time.Minute)
		if _, errs := v.Setup(t.Context(), pod); len(errs) != 1 {
			t.Error("an expired token of an account that is gone was left in place without an error")
		}
		api.Fail(nil)
		before := asked()
		time.Sleep(time.Minute)
		setup(t, v, pod)
		if asked() != before+1 {
			t.Error("a token was not renewed when the apiserver was available again")
		}
	})
}

func TestEmptyDirAndRemove(t *testing.T) {
	v, _, root := newVolumes(t, references{})
	pod := withVolume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	dir := setup(t, v, pod)
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	setup(t, v, pod)
	if _, err := os.Stat(filepath.Join(dir, "x")); err != nil {
		t.Errorf("a second setup lost a file: %v", err)
	}
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o777 {
		t.Errorf("mode %v", info.Mode())
	}
	if uids, err := v.Pods(); err != nil || len(uids) != 1 || uids[0] != "u" {
		t.Errorf("pods %v, %v", uids, err)
	}
	for _, uid := range []string{"", "..", "a/b"} {
		if err := v.Remove(uid); err == nil {
			t.Errorf("removed %q", uid)
		}
	}
	if err := v.Remove("u"); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(root); len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
}
