// Package upstream asks Kubernetes' own kubelet what it asks of a container runtime to run a pod.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/go-logr/logr"
	cadvisor "github.com/google/cadvisor/lib/model"
	"go.opentelemetry.io/otel/trace/noop"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	remote "k8s.io/cri-client/pkg"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/kubelet"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/configmap"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	"k8s.io/kubernetes/pkg/kubelet/logs"
	"k8s.io/kubernetes/pkg/kubelet/network/dns"
	"k8s.io/kubernetes/pkg/kubelet/prober/results"
	"k8s.io/kubernetes/pkg/kubelet/secret"
	"k8s.io/kubernetes/pkg/kubelet/userns"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	"k8s.io/kubernetes/pkg/volume"
	configmapvolume "k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/downwardapi"
	"k8s.io/kubernetes/pkg/volume/emptydir"
	"k8s.io/kubernetes/pkg/volume/hostpath"
	"k8s.io/kubernetes/pkg/volume/projected"
	secretvolume "k8s.io/kubernetes/pkg/volume/secret"
	volumetesting "k8s.io/kubernetes/pkg/volume/testing"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	volumetypes "k8s.io/kubernetes/pkg/volume/util/types"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime/conformance"
)

// isCgroup2UnifiedMode says in the kubelet whether the machine has cgroups v2.
//
//go:linkname isCgroup2UnifiedMode k8s.io/kubernetes/pkg/kubelet/kuberuntime.isCgroup2UnifiedMode
var isCgroup2UnifiedMode func() bool

// Kubelet is a conformance.Node: the kubelet's runtime manager, with its defaults of 1.37, and the
// methods of the kubelet that the manager calls. Nothing else of a kubelet exists.
type Kubelet struct {
	manager kuberuntime.KubeGenericRuntime
	volumes *mounted
	secrets secret.Manager
	backOff *flowcontrol.Backoff
}

// helper is the kubelet as its runtime manager sees it.
type helper struct{ *kubelet.Kubelet }

// OnPodSandboxReady does not report a status: no status manager exists.
func (helper) OnPodSandboxReady(context.Context, *corev1.Pod) error { return nil }

// NewKubelet returns a kubelet that works on a machine.
func NewKubelet(t *testing.T, ctx context.Context, m *conformance.Machine) (*Kubelet, error) {
	t.Helper()
	resolver, err := conformance.WriteResolver(m)
	if err != nil {
		return nil, err
	}
	var objects []runtime.Object
	services := serviceList{}
	for _, obj := range conformance.Objects() {
		objects = append(objects, obj)
		if service, ok := obj.(*corev1.Service); ok {
			services = append(services, service)
		}
	}
	client := fake.NewSimpleClientset(objects...)
	node := conformance.APINode()
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := nodes.Add(node); err != nil {
		return nil, err
	}
	capabilities.Setup(true, 0)
	// As on any machine that a kubelet of this release accepts without a flag.
	isCgroup2UnifiedMode = func() bool { return true }
	var ips []net.IP
	for _, ip := range conformance.NodeIPs() {
		ips = append(ips, net.ParseIP(ip))
	}
	recorder := discarding{}
	k := &Kubelet{
		volumes: newMounted(t, m.Root(), client), secrets: secret.NewSimpleSecretManager(client),
		backOff: flowcontrol.NewBackOff(10*time.Second, 5*time.Minute),
	}
	kl := &kubelet.Kubelet{}
	containers := cm.NewStubContainerManager()
	memory := node.Status.Capacity[corev1.ResourceMemory]
	for field, value := range map[string]any{
		"rootDirectory": m.Root(), "podLogsDirectory": filepath.Join(m.Root(), "logs", "pods"), "nodeName": types.NodeName(node.Name),
		"kubeClient": client, "nodeIPs": ips,
		"secretManager": k.secrets, "configMapManager": configmap.NewSimpleConfigMapManager(client),
		"volumeManager": volumemanager.VolumeManager(k.volumes), "containerManager": containers,
		"dnsConfigurer":    dns.NewConfigurer(recorder, &corev1.ObjectReference{}, ips, []net.IP{net.ParseIP(conformance.ClusterDNS)}, conformance.ClusterDomain, resolver),
		"serviceLister":    services,
		"serviceHasSynced": cache.InformerSynced(func() bool { return true }),
		"nodeLister":       corelisters.NewNodeLister(nodes),
		"hostutil":         hostutil.HostUtils(filled{hostutil.NewFakeHostUtil(nil)}),
		"subpather":        subpath.Interface(plainSubPaths{}),
		"usernsManager":    &userns.UsernsManager{},
	} {
		set(kl, field, value)
	}
	runtimeService, err := remote.NewRemoteRuntimeService(ctx, m.Endpoint(), time.Minute, noop.NewTracerProvider(), false)
	if err != nil {
		return nil, fmt.Errorf("connecting the kubelet to the machine: %w", err)
	}
	imageService, err := remote.NewRemoteImageService(ctx, m.Endpoint(), time.Minute, noop.NewTracerProvider(), false)
	if err != nil {
		return nil, fmt.Errorf("connecting the kubelet to the machine: %w", err)
	}
	single := false
	k.manager, _, err = kuberuntime.NewKubeGenericRuntimeManager(ctx, recorder,
		results.NewManager(), results.NewManager(), results.NewManager(), m.Root(), filepath.Join(m.Root(), "logs", "pods"),
		&cadvisor.MachineInfo{MemoryCapacity: uint64(memory.Value())}, living{}, 110, kubecontainer.RealOS{}, helper{kl},
		nil, flowcontrol.NewBackOff(10*time.Second, 5*time.Minute), false, nil, 0, 0,
		string(kubeletconfig.NeverVerifyPreloadedImages), nil, "", "",
		&single, true, metav1.Duration{Duration: 100 * time.Millisecond}, nil, runtimeService, imageService,
		containers, logs.NewStubContainerLogManager(), nil, false, "",
		func() corev1.ResourceList { return node.Status.Allocatable }, nil, kubeletconfig.NoneMemoryReservationPolicy,
		unmeasured{}, noop.NewTracerProvider(), nil, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("making the kubelet's runtime manager: %w", err)
	}
	// Whether the machine accounts for swap must not matter.
	set(k.manager, "getSwapControllerAvailable", func() bool { return false })
	return k, nil
}

// set sets a field of a struct that only its package may set. A field that a release renames
// panics.
func set(of any, field string, value any) {
	f := reflect.ValueOf(of).Elem().FieldByName(field)
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(reflect.ValueOf(value))
}

func (k *Kubelet) status(ctx context.Context, pod *corev1.Pod) (*kubecontainer.PodStatus, error) {
	running, err := k.manager.GetPods(ctx, true)
	if err != nil {
		return nil, err
	}
	for _, one := range running {
		if one.ID == pod.UID {
			return k.manager.GetPodStatus(ctx, one)
		}
	}
	return &kubecontainer.PodStatus{ID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}, nil
}

// Sync moves a pod closer to its wanted state, as Kubelet.SyncPod does after its own preparations.
func (k *Kubelet) Sync(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	// Kubelet.makePodDataDirs.
	if err := os.MkdirAll(filepath.Join(k.volumes.root, "pods", string(pod.UID)), 0o750); err != nil {
		return nil, err
	}
	if unmountable(pod) {
		return nil, nil
	}
	if err := k.volumes.mount(pod); err != nil {
		return nil, err
	}
	status, err := k.status(ctx, pod)
	if err != nil {
		return nil, err
	}
	if ended(pod, status) {
		return nil, nil // Kubelet.SyncPod returns before it calls the manager.
	}
	if kubecontainer.IsHostNetworkPod(pod) {
		status.IPs = conformance.NodeIPs() // As Kubelet.SyncPod takes them from the status for the API.
	}
	var pulls []corev1.Secret
	for _, ref := range pod.Spec.ImagePullSecrets {
		if found, err := k.secrets.GetSecret(pod.Namespace, ref.Name); err == nil {
			pulls = append(pulls, *found)
		}
	}
	result := k.manager.SyncPod(ctx, pod, status, pulls, k.backOff, false)
	waits := map[string]string{}
	for _, r := range result.SyncResults {
		if name, ok := r.Target.(string); ok && r.Action == kubecontainer.StartContainer && r.Error != nil {
			waits[name] = singular.Replace(r.Error.Error() + ": " + r.Message)
		}
		if r.Action == kubecontainer.CreatePodSandbox && r.Error != nil {
			return nil, fmt.Errorf("creating the sandbox: %s", r.Message)
		}
	}
	return waits, result.SyncError
}

// singular names kinds as the kubelet's watching managers of ConfigMaps and Secrets do; those that
// this kubelet has return the error of the API.
var singular = strings.NewReplacer(`configmaps "`, `configmap "`, `secrets "`, `secret "`)

// unmountable reports whether the kubelet waits for a volume: the objects exist in one namespace.
func unmountable(pod *corev1.Pod) bool {
	return pod.Namespace != conformance.Namespace && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.ConfigMap != nil || v.Secret != nil || v.Projected != nil
	})
}

// ended reports whether no container of a pod will run again.
func ended(pod *corev1.Pod, status *kubecontainer.PodStatus) bool {
	for i := range pod.Spec.Containers {
		last := status.FindContainerStatusByName(pod.Spec.Containers[i].Name)
		if pod.Spec.RestartPolicy != corev1.RestartPolicyNever || last == nil || last.State != kubecontainer.ContainerStateExited {
			return false
		}
	}
	return true
}

// Kill ends all containers of a pod.
func (k *Kubelet) Kill(ctx context.Context, pod *corev1.Pod, grace int64) error {
	status, err := k.status(ctx, pod)
	if err != nil {
		return err
	}
	if err := k.manager.KillPod(ctx, pod, kubecontainer.ConvertPodStatusToRunningPod("containerd", status), &grace); err != nil {
		return err
	}
	k.volumes.forget(pod)
	return errors.Join(os.RemoveAll(filepath.Join(k.volumes.root, "pods", string(pod.UID))),
		os.RemoveAll(filepath.Join(k.volumes.root, "logs", "pods")))
}

// QOSClass returns the class of a pod whose status has none.
func (k *Kubelet) QOSClass(pod *corev1.Pod) string { return string(v1qos.GetPodQOS(pod)) }

// filled says that every path in a volume exists.
type filled struct{ *hostutil.FakeHostUtil }

func (filled) PathExists(string) (bool, error) { return true, nil }

type serviceList []*corev1.Service

func (l serviceList) List(labels.Selector) ([]*corev1.Service, error) { return l, nil }

// living says that every pod lives.
type living struct{}

func (living) IsPodTerminationRequested(types.UID) bool { return false }
func (living) ShouldPodContentBeRemoved(types.UID) bool { return false }
func (living) ShouldPodRuntimeBeRemoved(types.UID) bool { return false }

type unmeasured struct{}

func (unmeasured) RecordImageStartedPulling(types.UID)  {}
func (unmeasured) RecordImageFinishedPulling(types.UID) {}

// discarding is a recorder of events, which are not compared.
type discarding struct{}

func (d discarding) WithLogger(logr.Logger) record.EventRecorderLogger { return d }

func (discarding) Event(runtime.Object, string, string, string)          {}
func (discarding) Eventf(runtime.Object, string, string, string, ...any) {}
func (discarding) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
}

// mounted is a volume manager: volumes are mounted when a pod is synced, by Kubernetes' own plugins,
// which write nothing.
type mounted struct {
	volumemanager.VolumeManager
	root    string
	plugins *volume.VolumePluginMgr
	maps    map[volumetypes.UniquePodName]kubecontainer.VolumeMap
}

func newMounted(t *testing.T, root string, client *fake.Clientset) *mounted {
	t.Helper()
	var plugins []volume.VolumePlugin
	for _, more := range [][]volume.VolumePlugin{
		configmapvolume.ProbeVolumePlugins(), downwardapi.ProbeVolumePlugins(), emptydir.ProbeVolumePlugins(), projected.ProbeVolumePlugins(),
		secretvolume.ProbeVolumePlugins(), hostpath.ProbeVolumePlugins(volume.VolumeConfig{}),
	} {
		plugins = append(plugins, more...)
	}
	host := volumetesting.NewFakeKubeletVolumeHost(t, root, client, plugins)
	return &mounted{root: root, plugins: host.GetPluginMgr(), maps: map[volumetypes.UniquePodName]kubecontainer.VolumeMap{}}
}

func (m *mounted) mount(pod *corev1.Pod) error {
	volumes := kubecontainer.VolumeMap{}
	for i := range pod.Spec.Volumes {
		spec := volume.NewSpecFromVolume(&pod.Spec.Volumes[i])
		plugin, err := m.plugins.FindPluginBySpec(spec)
		if err != nil {
			return err
		}
		mounter, err := plugin.NewMounter(spec, pod)
		if err != nil {
			return err
		}
		volumes[spec.Name()] = kubecontainer.VolumeInfo{Mounter: mounter, InnerVolumeSpecName: spec.Name()}
	}
	m.maps[volumetypes.UniquePodName(pod.UID)] = volumes
	return nil
}

func (m *mounted) forget(pod *corev1.Pod) { delete(m.maps, volumetypes.UniquePodName(pod.UID)) }

func (m *mounted) GetMountedVolumesForPod(name volumetypes.UniquePodName) kubecontainer.VolumeMap {
	return m.maps[name]
}

func (m *mounted) GetExtraSupplementalGroupsForPod(*corev1.Pod) []int64 { return nil }

// plainSubPaths mounts no subPath: a container sees the path in the volume.
type plainSubPaths struct{}

func (plainSubPaths) CleanSubPaths(string, string) error { return nil }
func (plainSubPaths) PrepareSafeSubpath(s subpath.Subpath) (string, func(), error) {
	return s.Path, nil, nil
}
func (plainSubPaths) SafeMakeDir(string, string, os.FileMode) error { return nil }
