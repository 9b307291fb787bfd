package volumes

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type oneSecret struct{ References }

func (oneSecret) Secret(context.Context, string, string) (*corev1.Secret, error) {
	return &corev1.Secret{Data: map[string][]byte{"password": []byte("opensesame")}}, nil
}

func (oneSecret) ConfigMap(context.Context, string, string) (*corev1.ConfigMap, error) {
	return &corev1.ConfigMap{Data: map[string]string{"key": "value"}}, nil
}

func memoryPod() *corev1.Pod {
	items := []corev1.DownwardAPIVolumeFile{{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}
	secret := corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{
			{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
			{Name: "downward", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: items}}},
			{Name: "projected", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &secret}}}}},
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
			{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
			{Name: "disk", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		}},
	}
}

func TestSecretsLieInMemory(t *testing.T) {
	mayMount(t)
	v := newTestVolumes(t, false)
	v.cfg.References = oneSecret{}
	var first map[string]string
	for range 2 {
		paths, errs := v.Setup(t.Context(), memoryPod())
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		first = paths
	}
	for name, want := range map[string]bool{"secret": true, "downward": true, "projected": true, "config": false, "memory": true, "disk": false} {
		mounted, err := isMountPoint(first[name])
		if err != nil || mounted != want {
			t.Errorf("the volume %s is mounted: %v, want %v, %v", name, mounted, want, err)
		}
		var s unix.Statfs_t
		if err := unix.Statfs(first[name], &s); err != nil || want && s.Type != unix.TMPFS_MAGIC {
			t.Errorf("the volume %s is on a file system of type %x, %v", name, s.Type, err)
		}
		if points, err := mountsBelow(first[name]); err != nil || want != (len(points) == 1) {
			t.Errorf("the volume %s is mounted %d times, %v", name, len(points), err)
		}
	}
	secret := filepath.Join(first["secret"], "password")
	if text, err := os.ReadFile(secret); err != nil || string(text) != "opensesame" {
		t.Errorf("the Secret holds %q, %v", text, err)
	}
	// Lost memory is mounted and filled again.
	if err := unmount(first["secret"]); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(secret); err == nil {
		t.Error("the Secret is on the disk below the memory")
	}
	if _, errs := v.Setup(t.Context(), memoryPod()); len(errs) > 0 {
		t.Fatal(errs)
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "opensesame" {
		t.Errorf("the Secret holds %q, %v", text, err)
	}
	if err := v.Remove("u"); err != nil {
		t.Fatal(err)
	}
	if points, err := mountsBelow(v.cfg.Dir); err != nil || len(points) > 0 {
		t.Errorf("still mounted: %q, %v", points, err)
	}
}

// TestMemoryIsNotMountedOverFiles: a volume written by an agent that could not mount stays on disk,
// so its containers continue to see what is written.
func TestMemoryIsNotMountedOverFiles(t *testing.T) {
	mayMount(t)
	simulated := newTestVolumes(t, true)
	simulated.cfg.References = oneSecret{}
	if _, errs := simulated.Setup(t.Context(), memoryPod()); len(errs) > 0 {
		t.Fatal(errs)
	}
	var log bytes.Buffer
	v := New(Config{Dir: simulated.cfg.Dir, Client: simulated.cfg.Client, References: oneSecret{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 2 {
		paths, errs := v.Setup(t.Context(), memoryPod())
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if mounted, err := isMountPoint(paths["secret"]); err != nil || mounted {
			t.Errorf("mounted: %v, %v", mounted, err)
		}
	}
	if strings.Count(log.String(), "are on the node's disk") != 1 || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("the log is %q", log.String())
	}
	if err := v.Remove("u"); err != nil {
		t.Error(err)
	}
}

func TestNothingIsMountedForTheSimulatedRuntime(t *testing.T) {
	var log bytes.Buffer
	v := newTestVolumes(t, true)
	v.cfg.References, v.cfg.Logger = oneSecret{}, slog.New(slog.NewTextHandler(&log, nil))
	for range 2 {
		paths, errs := v.Setup(t.Context(), memoryPod())
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if text, err := os.ReadFile(filepath.Join(paths["secret"], "password")); err != nil || string(text) != "opensesame" {
			t.Errorf("the Secret holds %q, %v", text, err)
		}
	}
	if points, err := mountsBelow(v.cfg.Dir); err != nil || len(points) > 0 {
		t.Errorf("mounted: %q, %v", points, err)
	}
	if strings.Count(log.String(), "are on the node's disk") != 1 || !strings.Contains(log.String(), "level=INFO") {
		t.Errorf("the log is %q", log.String())
	}
}
