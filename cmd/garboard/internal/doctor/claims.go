package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/localvolume"
)

const (
	// patience is the time for which a claim may wait for a volume, and an autoscaler for metrics.
	patience = 5 * time.Minute
	// noProvisioner is the provisioner of classes whose volumes administrators make.
	noProvisioner = "kubernetes.io/no-provisioner"
	// provisioningFailed is the reason of Events of provisioners.
	provisioningFailed = "ProvisioningFailed"
)

// Storage are the facts about claims and volumes.
type Storage struct {
	// Claims are the claims that are not bound, Classes the StorageClasses by name.
	Claims  []*corev1.PersistentVolumeClaim
	Classes map[string]*storagev1.StorageClass
	// Refusals are the newest messages of Events ProvisioningFailed, by the UIDs of claims.
	Refusals map[types.UID]string
	// Volumes are the names of all PersistentVolumes.
	Volumes map[string]bool
	// Err is why something of this is not known.
	Err error
}

// gather reads everything but the Events, which it reads only if a claim waits.
func (s *Storage) gather(ctx context.Context, api client.Interface) {
	s.Volumes, s.Classes, s.Refusals = map[string]bool{}, map[string]*storagev1.StorageClass{}, map[types.UID]string{}
	if s.Err = s.addVolumes(ctx, api); s.Err != nil {
		return
	}
	classes, _, err := client.Of[*storagev1.StorageClass](api).List(ctx, "", metav1.ListOptions{})
	if s.Err = err; err != nil {
		return
	}
	for _, class := range classes {
		s.Classes[class.Name] = class
	}
	claims, _, err := client.Of[*corev1.PersistentVolumeClaim](api).List(ctx, "", metav1.ListOptions{})
	if s.Err = err; err != nil {
		return
	}
	s.Claims = slices.DeleteFunc(claims, func(c *corev1.PersistentVolumeClaim) bool {
		return c.Status.Phase != corev1.ClaimPending && c.Status.Phase != "" || c.DeletionTimestamp != nil
	})
	if len(s.Claims) > 0 {
		s.Err = s.addRefusals(ctx, api)
	}
}

func (s *Storage) addVolumes(ctx context.Context, api client.Interface) error {
	volumes, _, err := client.Of[*corev1.PersistentVolume](api).List(ctx, "", metav1.ListOptions{})
	for _, v := range volumes {
		s.Volumes[v.Name] = true
	}
	return err
}

func (s *Storage) addRefusals(ctx context.Context, api client.Interface) error {
	all, _, err := client.Of[*corev1.Event](api).List(ctx, "", metav1.ListOptions{
		FieldSelector: "involvedObject.kind=PersistentVolumeClaim,reason=" + provisioningFailed,
	})
	slices.SortStableFunc(all, func(a, b *corev1.Event) int { return lastSeen(a).Compare(lastSeen(b)) })
	for _, e := range all {
		s.Refusals[e.InvolvedObject.UID] = e.Message
	}
	return err
}

// lastSeen returns when an Event last happened.
func lastSeen(e *corev1.Event) time.Time {
	last := e.LastTimestamp.Time
	if e.EventTime.After(last) {
		last = e.EventTime.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(last) {
		last = e.Series.LastObservedTime.Time
	}
	return last
}

// unknownFolders returns the local volumes that a node lists and of which there is no PersistentVolume.
func (s *Storage) unknownFolders(node *corev1.Node) []string {
	var unknown []string
	for _, used := range node.Status.VolumesInUse {
		if name, local := localvolume.VolumeName(used); local && !s.Volumes[name] {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// cause is why claims wait, or webhooks cannot be called.
type cause struct{ name, says, advice string }

// inOrder returns causes sorted by their names.
func inOrder(causes map[cause][]string) []cause {
	return slices.SortedFunc(maps.Keys(causes), func(a, b cause) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.says, b.says))
	})
}

func checkStorage(l list, f *Facts) {
	s := &f.Storage
	if s.Err != nil {
		l.add(Warn, "all", s.Err.Error(), "Use a kubeconfig that may list persistentvolumeclaims, persistentvolumes, storageclasses and events.")
		return
	}
	waiting, events := map[cause][]string{}, map[cause]string{}
	for _, c := range s.Claims {
		if f.serverNow().Sub(c.CreationTimestamp.Time) < patience {
			continue
		}
		why, waits := f.causeOf(c)
		if !waits {
			continue
		}
		waiting[why] = append(waiting[why], c.Namespace+"/"+c.Name)
		events[why] = cmp.Or(events[why], s.Refusals[c.UID])
	}
	for _, why := range inOrder(waiting) {
		says := fmt.Sprintf("%s (%s)", why.says, some(waiting[why]))
		if event := events[why]; event != "" {
			says += "; its last Event: " + event
		}
		l.add(Warn, why.name, says, why.advice)
	}
	if len(waiting) == 0 {
		l.ok("claims", "none has waited for a volume for %s", long(patience))
	}
	for _, node := range f.Nodes {
		if unknown := s.unknownFolders(node); len(unknown) > 0 {
			l.add(Warn, "folders of "+node.Name, fmt.Sprintf("%d belong to no known volume: %s", len(unknown), some(unknown)),
				"Garboard keeps them: remove those whose data nobody needs by hand, in the folder of the node's annotation "+localvolume.NodeAnnotation+".")
		}
	}
}

// causeOf returns why a claim waits; false if it is to wait, since no pod uses it yet.
func (f *Facts) causeOf(c *corev1.PersistentVolumeClaim) (cause, bool) {
	name := volume.GetPersistentVolumeClaimClass(c)
	class := f.Storage.Classes[name]
	group := "claims of class " + name
	switch {
	case c.Spec.VolumeName != "":
		return cause{"claims", "claims wait for the volume that they name",
			"Create that PersistentVolume, or see in its claimRef, capacity and access modes why it does not fit."}, true
	case name == "" && c.Spec.StorageClassName == nil:
		return cause{"claims", "claims name no StorageClass, and there is no default one", "Make a StorageClass the default one with the annotation " +
			storageClassDefault + "=true; the controllers create one unless --local-path-storage-class is empty."}, true
	case name == "":
		return cause{"claims", "claims ask for volumes without a StorageClass, and none fits", "Create PersistentVolumes that fit, or create the claims anew with a StorageClass."}, true
	case class == nil:
		return cause{group, "there is no such StorageClass", "Create this StorageClass, or create the claims anew with one that exists (kubectl get storageclasses)."}, true
	}
	waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	placed := !waits || c.Annotations[volume.AnnSelectedNode] != ""
	switch {
	case !placed && f.Storage.Refusals[c.UID] == "":
		return cause{}, false
	case class.Provisioner == noProvisioner:
		return cause{group, "no volume fits", "Create PersistentVolumes of this class that fit: nothing provisions them."}, true
	case class.Provisioner != localvolume.Provisioner:
		return cause{group, class.Provisioner + " has provisioned no volume",
			"Make sure that this provisioner is installed and runs: it is not part of Garboard. Then see the Events of the claims (kubectl describe pvc)."}, true
	}
	return cause{group, localvolume.Provisioner + " has provisioned no volume", f.localPathAdvice()}, true
}

// storageClassDefault is the annotation of the default StorageClass.
const storageClassDefault = "storageclass.kubernetes.io/is-default-class"

// localPathAdvice says what to do about claims that Garboard's provisioner is to serve.
func (f *Facts) localPathAdvice() string {
	var without []string
	for _, node := range f.Nodes {
		if node.Annotations[localvolume.NodeAnnotation] == "" {
			without = append(without, node.Name)
		}
	}
	if len(without) > 0 {
		return fmt.Sprintf("Nodes without the annotation %s keep no volumes (%s): start their agents with --local-volumes-dir, or keep the pods from these nodes.",
			localvolume.NodeAnnotation, some(without))
	}
	return "See the Events of the claims (kubectl describe pvc), and make sure that the controllers run local-path-provisioner (--controllers): docs/reference/storage.md."
}
