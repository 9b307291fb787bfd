package simulated

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestLists selects sandboxes and containers by each part of a filter.
func TestLists(t *testing.T) {
	r := create(t, config(t.TempDir()))
	label := func(uid, tier string) *cri.PodSandboxConfig {
		p := pod(uid, nil)
		p.Labels["tier"] = tier
		return p
	}
	sandboxA, containerA := start(t, r, label("a", "web"))
	sandboxB, containerB := start(t, r, label("b", "db"))
	if _, err := r.StopPodSandbox(t.Context(), &cri.StopPodSandboxRequest{PodSandboxId: sandboxB}); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{sandboxA: "A", sandboxB: "B", containerA: "a", containerB: "b"}
	const ready, notReady = cri.PodSandboxState_SANDBOX_READY, cri.PodSandboxState_SANDBOX_NOTREADY
	for _, c := range []struct {
		name   string
		filter *cri.PodSandboxFilter
		want   string
	}{
		{"all, newest first", nil, "B A"},
		{"by ID", &cri.PodSandboxFilter{Id: sandboxA}, "A"},
		{"by an unknown ID", &cri.PodSandboxFilter{Id: "none"}, ""},
		{"ready", &cri.PodSandboxFilter{State: &cri.PodSandboxStateValue{State: ready}}, "A"},
		{"not ready", &cri.PodSandboxFilter{State: &cri.PodSandboxStateValue{State: notReady}}, "B"},
		{"by label", &cri.PodSandboxFilter{LabelSelector: map[string]string{"tier": "db"}}, "B"},
		{"by two labels", &cri.PodSandboxFilter{LabelSelector: map[string]string{"tier": "db", "none": "x"}}, ""},
		{"by label and state", &cri.PodSandboxFilter{LabelSelector: map[string]string{"tier": "db"}, State: &cri.PodSandboxStateValue{State: ready}}, ""},
	} {
		answer, err := r.ListPodSandbox(t.Context(), &cri.ListPodSandboxRequest{Filter: c.filter})
		var got []string
		for _, s := range answer.GetItems() {
			got = append(got, names[s.GetId()])
		}
		if text := strings.Join(got, " "); text != c.want || err != nil {
			t.Errorf("sandboxes %s: got %q, %v, want %q", c.name, text, err, c.want)
		}
	}
	for _, c := range []struct {
		name   string
		filter *cri.ContainerFilter
		want   string
	}{
		{"all, newest first", nil, "b a"},
		{"by ID", &cri.ContainerFilter{Id: containerB}, "b"},
		{"by sandbox", &cri.ContainerFilter{PodSandboxId: sandboxA}, "a"},
		{"running", &cri.ContainerFilter{State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING}}, "a"},
		{"ended with their sandbox", &cri.ContainerFilter{State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_EXITED}}, "b"},
		{"by sandbox and ID", &cri.ContainerFilter{PodSandboxId: sandboxA, Id: containerB}, ""},
	} {
		answer, err := r.ListContainers(t.Context(), &cri.ListContainersRequest{Filter: c.filter})
		var got []string
		for _, found := range answer.GetContainers() {
			got = append(got, names[found.GetId()])
		}
		if text := strings.Join(got, " "); text != c.want || err != nil {
			t.Errorf("containers %s: got %q, %v, want %q", c.name, text, err, c.want)
		}
	}
}

// TestImages finds an image by all its names.
func TestImages(t *testing.T) {
	r := create(t, config(t.TempDir()))
	ctx := t.Context()
	pulled, err := r.PullImage(ctx, &cri.PullImageRequest{Image: &cri.ImageSpec{Image: "registry.example:5000/team/app:1.2"}})
	if err != nil {
		t.Fatal(err)
	}
	find := func(ref string) *cri.Image {
		answer, err := r.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: ref}})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetImage()
	}
	image := find(pulled.GetImageRef())
	if image == nil || len(image.GetRepoTags()) != 1 || len(image.GetRepoDigests()) != 1 ||
		!strings.HasPrefix(image.GetRepoDigests()[0], "registry.example:5000/team/app@sha256:") || image.GetSize() == 0 {
		t.Fatalf("the image is %+v", image)
	}
	for ref, known := range map[string]bool{
		"registry.example:5000/team/app:1.2": true, image.GetRepoDigests()[0]: true, image.GetId(): true,
		"registry.example:5000/team/app": false, "app:1.2": false, "UPPER": false, "": false, image.GetId()[:20]: false,
	} {
		if found := find(ref); (found != nil) != known {
			t.Errorf("%q is found: %t", ref, found != nil)
		}
	}
	// An image that is named by its digest has no tag, and pulling it again yields the same.
	digest, err := r.PullImage(ctx, &cri.PullImageRequest{Image: &cri.ImageSpec{Image: image.GetRepoDigests()[0]}})
	if err != nil || digest.GetImageRef() != pulled.GetImageRef() {
		t.Errorf("by digest the image is %v, %v", digest, err)
	}
	list, err := r.ListImages(ctx, &cri.ListImagesRequest{})
	if err != nil || len(list.GetImages()) != 2 {
		t.Errorf("the images are %v, %v", list, err)
	}
	for range 3 { // Removing what is gone succeeds.
		if _, err := r.RemoveImage(ctx, &cri.RemoveImageRequest{Image: &cri.ImageSpec{Image: image.GetId()}}); err != nil {
			t.Fatal(err)
		}
	}
	if find(image.GetId()) != nil {
		t.Error("a removed image is still there")
	}
}

// TestExec runs commands in containers in each state.
func TestExec(t *testing.T) {
	r := create(t, config(t.TempDir()))
	sandbox, id := start(t, r, pod("a", map[string]string{AnnotationPrefix + keyExecOutput: "hello", AnnotationPrefix + keyExecCode: "3"}))
	exec := func(id string, command ...string) (*cri.ExecSyncResponse, error) {
		return r.ExecSync(t.Context(), &cri.ExecSyncRequest{ContainerId: id, Cmd: command})
	}
	answer, err := exec(id, "true")
	if err != nil || string(answer.GetStdout()) != "hello" || answer.GetExitCode() != 3 {
		t.Errorf("got %v, %v", answer, err)
	}
	_, err = exec(id)
	expect(t, err, "no command to run")
	_, err = exec("none", "true")
	expect(t, err, "code = NotFound")
	if _, err := r.StopContainer(t.Context(), &cri.StopContainerRequest{ContainerId: id, Timeout: 1}); err != nil {
		t.Fatal(err)
	}
	_, err = exec(id, "true")
	expect(t, err, "container is in CONTAINER_EXITED state")
	_, err = r.ReopenContainerLog(t.Context(), &cri.ReopenContainerLogRequest{ContainerId: id})
	expect(t, err, "container is not running")
	_, err = r.StartContainer(t.Context(), &cri.StartContainerRequest{ContainerId: id})
	expect(t, err, "container is in CONTAINER_EXITED state")
	// What is unknown is stopped and removed already.
	for _, err := range []error{
		second(r.StopContainer(t.Context(), &cri.StopContainerRequest{ContainerId: "none"})),
		second(r.RemoveContainer(t.Context(), &cri.RemoveContainerRequest{ContainerId: "none"})),
		second(r.StopPodSandbox(t.Context(), &cri.StopPodSandboxRequest{PodSandboxId: "none"})),
		second(r.RemovePodSandbox(t.Context(), &cri.RemovePodSandboxRequest{PodSandboxId: "none"})),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	// A removed sandbox takes its containers along.
	if err := second(r.RemovePodSandbox(t.Context(), &cri.RemovePodSandboxRequest{PodSandboxId: sandbox})); err != nil {
		t.Error(err)
	}
	_, err = r.ContainerStatus(t.Context(), &cri.ContainerStatusRequest{ContainerId: id})
	expect(t, err, "code = NotFound")
}

func second[T any](_ T, err error) error { return err }

// TestStopGrace: a container that needs longer than its grace period is killed, and a caller that
// gives up leaves it running.
func TestStopGrace(t *testing.T) {
	for _, c := range []struct {
		name            string
		delay           string
		grace, patience time.Duration
		took            time.Duration
		code            int32
		running         bool
	}{
		{name: "at once", delay: "0s", grace: 30 * time.Second, code: 0},
		{name: "in time", delay: "5s", grace: 30 * time.Second, took: 5 * time.Second, code: 0},
		{name: "too late", delay: "1m", grace: 30 * time.Second, took: 30 * time.Second, code: killed},
		{name: "without grace", delay: "5s", code: killed},
		{name: "the caller gives up", delay: "20s", grace: 30 * time.Second, patience: 3 * time.Second, took: 3 * time.Second, running: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				r := create(t, config(dir))
				_, id := start(t, r, pod("a", map[string]string{AnnotationPrefix + keyStopDelay: c.delay}))
				ctx := t.Context()
				if c.patience > 0 {
					limited, cancel := context.WithTimeout(ctx, c.patience)
					defer cancel()
					ctx = limited
				}
				began := time.Now()
				_, err := r.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: id, Timeout: int64(c.grace / time.Second)})
				if took := time.Since(began); (err != nil) != c.running || took != c.took {
					t.Errorf("it took %v: %v", took, err)
				}
				status := containerStatus(t, r, id)
				if running := status.GetState() == cri.ContainerState_CONTAINER_RUNNING; running != c.running || !running && status.GetExitCode() != c.code {
					t.Errorf("the container is %v", status)
				}
			})
		})
	}
}

// TestDamage starts a runtime on files that were damaged, or of which some are gone.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	r := create(t, config(dir))
	sandbox, id := start(t, r, pod("a", nil))
	path := filepath.Join(dir, sandboxFolder, sandbox+".json")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range [][]byte{nil, []byte("{"), whole[:len(whole)/2], []byte(`{"ID":7}`), []byte("null{}")} {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(config(dir)); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("with %q: %v", damaged, err)
		}
	}
	// The rest of a replacement that was never completed does not matter.
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := containerStatus(t, create(t, config(dir)), id).GetState(); got != cri.ContainerState_CONTAINER_RUNNING {
		t.Errorf("the container is %v", got)
	}
	// Without its sandbox a container is nothing.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	left, err := create(t, config(dir)).ListContainers(t.Context(), &cri.ListContainersRequest{})
	if err != nil || len(left.GetContainers()) != 0 {
		t.Errorf("without its sandbox there is %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(dir, containerFolder, fmt.Sprint(id, ".json"))); !os.IsNotExist(err) {
		t.Errorf("its file: %v", err)
	}
}
