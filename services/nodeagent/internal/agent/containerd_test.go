package agent_test

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/test/containers/harness"
)

// newContainerdWorld returns a world whose machine runs containers.
func newContainerdWorld(t *testing.T, containers *harness.Containers) *world {
	t.Helper()
	w := &world{
		t: t, dir: t.TempDir(), trace: trace.NewRecorder(1000), real: true,
		handler: make(chan http.Handler, 4),
	}
	w.api = fake.New(scheme.New(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "site"},
			Data:       map[string]string{"mode": "fast", "greeting": "hello from the ConfigMap\n"},
		},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "registry"}, Type: corev1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: fmt.Appendf(nil,
				`{"auths":{"https://index.docker.io/v1/":{"username":%q,"password":%q}}}`, harness.PrivateUser, harness.PrivatePassword)},
		},
	)
	var err error
	if w.runtime, err = runtime.Connect(t.Context(), containers.Endpoint(), w.logger()); err != nil {
		t.Fatal(err)
	}
	w.runtime.Own(nodeName)
	t.Cleanup(func() {
		if err := w.runtime.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// page returns the page of the pod's web server, or the error.
func page(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+pod.Status.PodIP+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return err.Error() // it may not listen yet
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// TestContainerd tests the agent with real containers.
func TestContainerd(t *testing.T) {
	containers := harness.Start(t)
	for _, test := range []struct {
		name string
		test func(*testing.T, *world, *harness.Containers)
	}{
		{"web server", testWeb},
		{"volumes and environment", testVolumes},
		{"a ConfigMap that changes", testConfigMapChanges},
		{"hostile volumes", testHostileVolumes},
		{"a subPath is not redirected", testSubPathRace},
		{"sub paths", testSubPaths},
		{"restart after a crash", testRestart},
		{"a private image", testPrivate},
		{"crash of the runtime", testRuntimeCrash},
		{"replacement of the agent", testTakeOver},
		{"unavailable apiserver", testAway},
		{"ephemeral containers", testEphemeral},
		{"a resize", func(t *testing.T, w *world, _ *harness.Containers) {
			stop := w.start()
			testResize(t, w, func() { stop(); w.start() })
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newContainerdWorld(t, containers)
			test.test(t, w, containers)
			pods, err := containers.Running(t.Context())
			if err != nil || len(pods) > 0 {
				t.Errorf("containers are left: %v, %v", pods, err)
			}
		})
	}
}

// remove deletes a pod and waits until it and its containers are gone.
func (w *world) remove(name string) {
	w.t.Helper()
	if err := w.pods().Delete(w.t.Context(), "default", name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.eventually(name+" is gone", func() string {
		if pod := w.get(name); pod != nil {
			return fmt.Sprintf("%s %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return ""
	})
}

func testWeb(t *testing.T, w *world, containers *harness.Containers) {
	w.start()
	pod := newPod("web")
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}
	probe := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("http")}}
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: probe, PeriodSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3, TimeoutSeconds: 5}
	pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/usr/sbin/nginx", "-v"}}},
		PeriodSeconds: 1, SuccessThreshold: 1, FailureThreshold: 10, TimeoutSeconds: 20,
	}
	w.create(pod)
	got := w.until("web", "ready", ready)
	address, err := netip.ParseAddr(got.Status.PodIP)
	if err != nil || !containers.Subnet().Contains(address) {
		t.Errorf("the pod's address is %q", got.Status.PodIP)
	}
	status := got.Status.ContainerStatuses[0]
	if !strings.HasPrefix(status.ContainerID, "containerd://") || !strings.HasPrefix(status.ImageID, "docker.io/library/nginx@sha256:") {
		t.Errorf("the container's status is %+v", status)
	}
	w.eventually("the page is served", func() string {
		if body := page(t, got); !strings.Contains(body, "Welcome to nginx!") {
			return body
		}
		return ""
	})
	handler := <-w.handler
	w.eventually("the request is in the log", func() string {
		_, got := w.askLog(handler, "web", "nginx", &corev1.PodLogOptions{})
		if !strings.Contains(got, "Go-http-client") || !strings.Contains(got, "kube-probe") {
			return got
		}
		return ""
	})
	w.remove("web")
	w.hasEvent("web", "Killing: Stopping container nginx")
	if left, err := filepath.Glob(filepath.Join(w.dir, "logs", "pods", "default_web_*")); err != nil || len(left) > 0 {
		w.eventually("its logs are removed", func() string {
			if left, _ := filepath.Glob(filepath.Join(w.dir, "logs", "pods", "default_web_*")); len(left) > 0 {
				return strings.Join(left, " ")
			}
			return ""
		})
	}
}

func testVolumes(t *testing.T, w *world, _ *harness.Containers) {
	w.start()
	pod := newPod("site")
	source := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "site"}}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "pages", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "settings", VolumeSource: source},
	}
	pages := corev1.VolumeMount{Name: "pages", MountPath: "/usr/share/nginx/html"}
	pod.Spec.InitContainers = []corev1.Container{{
		Name: "write", Image: "busybox:1.36",
		Command:      []string{"sh", "-c", "echo mode $(MODE) > /usr/share/nginx/html/index.html; cat /settings/greeting >> /usr/share/nginx/html/index.html; hostname; echo $POD"},
		VolumeMounts: []corev1.VolumeMount{pages, {Name: "settings", MountPath: "/settings", ReadOnly: true}},
		Env: []corev1.EnvVar{
			{Name: "MODE", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "site"}, Key: "mode",
			}}},
			{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
		},
	}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{pages}
	w.create(pod)
	got := w.until("site", "ready", ready)
	w.eventually("the page is served", func() string {
		if body := page(t, got); body != "mode fast\nhello from the ConfigMap\n" {
			return body
		}
		return ""
	})
	if said, want := w.log(<-w.handler, "site", "write", &corev1.PodLogOptions{}), "site\n"+got.Status.PodIP+"\n"; said != want {
		t.Errorf("the init container said %q, want %q", said, want)
	}
	w.remove("site")
}

// testConfigMapChanges checks that a running container sees what is written to a mounted ConfigMap.
func testConfigMapChanges(t *testing.T, w *world, _ *harness.Containers) {
	w.start()
	pod := newPod("changing")
	pod.Spec.Volumes = []corev1.Volume{{Name: "pages", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "site"}, Items: []corev1.KeyToPath{{Key: "greeting", Path: "index.html"}},
	}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "pages", MountPath: "/usr/share/nginx/html"}}
	w.create(pod)
	got := w.until("changing", "ready", ready)
	shows := func(want string) func() string {
		return func() string {
			if body := page(t, got); body != want {
				return body
			}
			return ""
		}
	}
	w.eventually("the ConfigMap is served", shows("hello from the ConfigMap\n"))
	sites := client.Of[*corev1.ConfigMap](w.api)
	site, err := sites.Get(t.Context(), "default", "site", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	site = site.DeepCopy()
	site.Data["greeting"] = "changed\n"
	if _, err := sites.Update(t.Context(), site, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the changed ConfigMap is served", shows("changed\n"))
	if now := w.until("changing", "ready", ready); now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Error("the container was restarted")
	}
	w.remove("changing")
}

func testRestart(t *testing.T, w *world, _ *harness.Containers) {
	w.start()
	pod := newPod("flaky")
	pod.Spec.Volumes = []corev1.Volume{{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	pod.Spec.Containers[0] = corev1.Container{
		Name: "main", Image: "busybox:1.36", ImagePullPolicy: corev1.PullIfNotPresent,
		Command:                []string{"sh", "-c", "test -e /memory/once && sleep 1000; touch /memory/once; echo first; echo dying > /dev/termination-log; exit 7"},
		VolumeMounts:           []corev1.VolumeMount{{Name: "memory", MountPath: "/memory"}},
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceMemory: resource.MustParse("64Mi"), corev1.ResourceCPU: resource.MustParse("500m"),
		}},
	}
	grace := int64(1)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	w.create(pod)
	got := w.until("flaky", "running for the second time", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount == 1 && ready(p)
	})
	last := got.Status.ContainerStatuses[0].LastTerminationState.Terminated
	if last == nil || last.ExitCode != 7 || last.Reason != "Error" || last.Message != "dying\n" {
		t.Errorf("the last termination is %+v", last)
	}
	if got := w.log(<-w.handler, "flaky", "main", &corev1.PodLogOptions{Previous: true}); got != "first\n" {
		t.Errorf("the previous log is %q", got)
	}
	w.remove("flaky")
}

func testPrivate(t *testing.T, w *world, _ *harness.Containers) {
	w.start()
	without := newPod("without")
	without.Spec.Containers[0].Image = harness.PrivateImage
	w.create(without)
	w.until("without", "waiting for its image", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			strings.HasPrefix(p.Status.ContainerStatuses[0].State.Waiting.Reason, "ErrImagePull")
	})
	w.hasEvent("without", `Failed: Failed to pull image "`+harness.PrivateImage+`": failed to pull and unpack image`)
	with := newPod("with")
	with.Spec.Containers[0].Image = harness.PrivateImage
	with.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	w.create(with)
	w.until("with", "ready", ready)
	w.remove("with")
	w.remove("without")
}

func testRuntimeCrash(t *testing.T, w *world, containers *harness.Containers) {
	w.start()
	w.create(newPod("steady"))
	before := w.until("steady", "ready", ready)
	containers.Kill(t)
	containers.Restart(t)
	w.create(newPod("later"))
	w.until("later", "ready", ready)
	after := w.get("steady")
	if after.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID || !ready(after) {
		t.Errorf("the pod changed from %+v to %+v", before.Status, after.Status)
	}
	w.remove("steady")
	w.remove("later")
}

func testTakeOver(t *testing.T, w *world, _ *harness.Containers) {
	stop := w.start()
	w.create(newPod("kept"))
	before := w.until("kept", "ready", ready)
	stop()
	w.start()
	w.create(newPod("new"))
	w.until("new", "ready", ready)
	after := w.get("kept")
	if after.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID || after.Status.PodIP != before.Status.PodIP {
		t.Errorf("the pod changed from %+v to %+v", before.Status, after.Status)
	}
	w.remove("kept")
	w.remove("new")
}

// testAway makes the apiserver entirely unavailable for more than a minute, in which a container
// crashes twice: each successor has the same environment and files as the first.
func testAway(t *testing.T, w *world, _ *harness.Containers) {
	w.api.Load(referred()...)
	w.start()
	pod := referring("alone")
	pod.Spec.Containers[0].Name, pod.Spec.Containers[0].Image = "main", "busybox:1.36"
	pod.Spec.Containers[0].Command = []string{"sh", "-c", "echo $mode $WORD $DB_SERVICE_HOST $DB_SERVICE_PORT; cat /secret/word; echo; test -e /token/token && echo token; sleep 25; exit 3"}
	pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	w.create(pod)
	w.until("alone", "ready", ready)
	w.cut()
	began := time.Now()
	const away = 75 * time.Second
	w.eventually("the container runs for the third time, and the time is over", func() string {
		if left := away - time.Since(began); left > 0 {
			return left.String()
		}
		for _, c := range w.containers() {
			if c.State == runtime.Running && c.Attempt >= 2 {
				return ""
			}
		}
		return fmt.Sprintf("%+v", w.containers())
	})
	handler := <-w.handler
	for _, previous := range []bool{false, true} {
		said := w.log(handler, "alone", "main", &corev1.PodLogOptions{Previous: previous})
		if want := "fast hush 10.96.0.7 5432\nhush\ntoken\n"; said != want {
			t.Errorf("the container said %q, want %q", said, want)
		}
	}
	if n := restartsOf(w.get("alone")); n != 0 {
		t.Errorf("%d restarts arrived while the apiserver was away", n)
	}
	w.away.Store(false)
	w.until("alone", "shown with its restarts", func(p *corev1.Pod) bool { return restartsOf(p) >= 2 })
	w.remove("alone")
}
