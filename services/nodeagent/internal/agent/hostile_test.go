package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/test/containers/harness"
)

// busybox returns a pod with one container that runs script once.
func busybox(name, script string, mounts ...corev1.VolumeMount) *corev1.Pod {
	pod := newPod(name)
	grace := int64(1)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Containers[0] = corev1.Container{
		Name: "main", Image: "busybox:1.36", ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{"sh", "-c", script}, VolumeMounts: mounts,
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
	return pod
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// mounts returns the mount points below the world's directory.
func (w *world) mounts() []string {
	w.t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		w.t.Fatal(err)
	}
	var points []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[4], w.dir) {
			points = append(points, fields[4])
		}
	}
	return points
}

func (w *world) nothingIsMounted() {
	w.t.Helper()
	w.eventually("nothing is mounted", func() string { return strings.Join(w.mounts(), " ") })
}

// testHostileVolumes: a container attacks the files that the agent provides.
func testHostileVolumes(t *testing.T, w *world, _ *harness.Containers) {
	w.start()
	writable := func(name string) corev1.VolumeMount { return corev1.VolumeMount{Name: name, MountPath: "/" + name} }
	pod := busybox("hostile", `touch /settings/x && echo is writable; touch /secret/x && echo is writable; `+
		`touch /fields/x && echo is writable; touch /all/x && echo is writable; cat /settings/mode /fields/name; cat /proc/mounts; `+
		`truncate -s 500000000000 /etc/hosts; truncate -s 500000000000 /dev/termination-log; exit 1`, writable("settings"), writable("secret"), writable("fields"), writable("all"))
	pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	site := corev1.LocalObjectReference{Name: "site"}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: site}}},
		{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "registry"}}},
		{Name: "fields", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
		}}}},
		{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: site}},
		}}}},
	}
	w.create(pod)
	w.until("hostile", "restarted", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount > 0
	})
	handler := <-w.handler
	w.eventually("the container has written", func() string {
		got := w.log(handler, "hostile", "main", &corev1.PodLogOptions{})
		for _, want := range []string{"fasthostile", "tmpfs /secret tmpfs ro", "tmpfs /fields tmpfs ro", "tmpfs /all tmpfs ro"} {
			if !strings.Contains(got, want) {
				return "no " + want + " in " + got
			}
		}
		if strings.Contains(got, "is writable") {
			t.Errorf("the container wrote to a read-only volume: %s", got)
		}
		return ""
	})
	w.remove("hostile")
	w.nothingIsMounted()
}

// testSubPathRace keeps swapping the directory that containers mount for a link out of the volume
// while they start.
func testSubPathRace(t *testing.T, w *world, _ *harness.Containers) {
	volume, outside := t.TempDir(), t.TempDir()
	for _, dir := range []string{filepath.Join(volume, "s"), filepath.Join(outside, "secret")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(volume, "l")); err != nil {
		t.Fatal(err)
	}
	w.start()
	const containers = 15
	pod := busybox("race", "")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: volume}}}}
	template := pod.Spec.Containers[0]
	pod.Spec.Containers = nil
	for i := range containers {
		c := *template.DeepCopy()
		c.Name = fmt.Sprint("c", i)
		c.Command = []string{"sh", "-c", "test -e /v/secret && echo it is outside || echo it is inside"}
		c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v", SubPath: "s"}}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(volume, "s"), unix.AT_FDCWD, filepath.Join(volume, "l"), unix.RENAME_EXCHANGE)
			}
		}
	}()
	defer func() {
		close(stop)
		<-done
	}()
	w.create(pod)
	w.until("race", "ended", ended)
	handler := <-w.handler
	for i := range containers {
		if got := w.log(handler, "race", fmt.Sprint("c", i), &corev1.PodLogOptions{}); got != "it is inside\n" {
			t.Errorf("container %d wrote %q", i, got)
		}
	}
	w.remove("race")
	w.nothingIsMounted()
}

// testSubPaths mounts parts of volumes: directories and files, in memory and on the host. It checks
// what is left after a container, the agent, and the pod have ended.
func testSubPaths(t *testing.T, w *world, _ *harness.Containers) {
	host := t.TempDir()
	if err := os.WriteFile(filepath.Join(host, "file"), []byte("the host's\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	stop := w.start()
	pod := busybox("parts", `cat /mode /secret /file; echo kept > /made/file; echo no > /fixed/x || cat /fixed/file; sleep 1000`,
		corev1.VolumeMount{Name: "settings", MountPath: "/mode", SubPath: "mode"},
		corev1.VolumeMount{Name: "secret", MountPath: "/secret", SubPath: "key"},
		corev1.VolumeMount{Name: "host", MountPath: "/file", SubPath: "file"},
		corev1.VolumeMount{Name: "empty", MountPath: "/made", SubPathExpr: "$(POD)/deep"},
		corev1.VolumeMount{Name: "empty", MountPath: "/fixed", SubPath: "parts/deep", ReadOnly: true},
	)
	user := int64(1000)
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &user}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
	second := *pod.Spec.Containers[0].DeepCopy()
	second.Name, second.Command = "brief", []string{"true"}
	pod.Spec.Containers = append(pod.Spec.Containers, second)
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "site"}}}},
		{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: "registry", Items: []corev1.KeyToPath{{Key: corev1.DockerConfigJsonKey, Path: "key"}},
		}}},
		{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: host}}},
	}
	w.create(pod)
	w.until("parts", "half ended", func(p *corev1.Pod) bool {
		running, over := 0, 0
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Running != nil {
				running++
			}
			if s.State.Terminated != nil {
				over++
			}
		}
		return running == 1 && over == 1
	})
	handler := <-w.handler
	w.eventually("the container has written", func() string {
		// The two streams of a container arrive in any order.
		got := w.log(handler, "parts", "main", &corev1.PodLogOptions{})
		if strings.Contains(got, "fast{") && strings.Contains(got, "the host's\n") && strings.Contains(got, "\nkept\n") && strings.Contains(got, "read-only file system") {
			return ""
		}
		return got
	})
	// After a restart of the agent, mounts of running containers stay, and those of ended ones go.
	stop()
	w.start()
	w.eventually("only the running container's mounts are left", func() string {
		running, brief := 0, 0
		for _, point := range w.mounts() {
			running += strings.Count(point, "/main/")
			brief += strings.Count(point, "/brief/")
		}
		if running != 5 || brief != 0 {
			return strings.Join(w.mounts(), " ")
		}
		return ""
	})
	if err := w.pods().Delete(t.Context(), "default", "parts", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the pod is gone", func() string {
		if w.get("parts") != nil {
			return "it exists"
		}
		return ""
	})
	w.nothingIsMounted()
	if text, err := os.ReadFile(filepath.Join(host, "file")); err != nil || string(text) != "the host's\n" {
		t.Errorf("the host's file is %q, %v", text, err)
	}
}
