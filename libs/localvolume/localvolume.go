// Package localvolume is what the provisioner of local-path volumes and the node agents agree on. A
// local-path volume is a folder on one node:
//
//   - A node publishes, in an annotation, the folder that holds its volumes.
//   - The provisioner creates a PersistentVolume, whose path is a folder of the volume's name in it.
//   - The node lists every volume that has a folder in status.volumesInUse, and does so before it
//     creates the folder. So a volume that is not listed has none.
//   - The provisioner deletes the PersistentVolume when it is released. A finalizer keeps the object
//     until the node, having removed the folder, no longer lists the volume.
package localvolume

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
)

const (
	// Provisioner is the provisioner's name in StorageClasses.
	Provisioner = "garboard.io/local-path"
	// NodeAnnotation is the annotation in which a Node publishes the folder of its volumes.
	NodeAnnotation = "garboard.io/local-volumes"
	// Finalizer keeps a PersistentVolume until its folder is removed.
	Finalizer = "garboard.io/local-path"
	// maxPath bounds a node's folder, in bytes.
	maxPath = 1024
	// unique is the prefix of volumes in status.volumesInUse, which is that of Kubernetes' plugin.
	unique = "kubernetes.io/local-volume/"
)

// UniqueName returns what a node calls the volume of a PersistentVolume in its status.
func UniqueName(name string) corev1.UniqueVolumeName { return corev1.UniqueVolumeName(unique + name) }

// VolumeName returns the name of the PersistentVolume that a node's status calls so; false if it is not a
// local volume.
func VolumeName(name corev1.UniqueVolumeName) (string, bool) {
	return strings.CutPrefix(string(name), unique)
}

// CheckFolder returns an error if a node cannot keep volumes in a folder: it must be an absolute, clean
// path of at most 1,024 bytes, and not the root.
func CheckFolder(folder string) error {
	switch {
	case folder == "":
		return errors.New("the folder of local volumes is empty")
	case len(folder) > maxPath:
		return fmt.Errorf("the folder of local volumes has a path of %d bytes; at most %d are allowed", len(folder), maxPath)
	case !path.IsAbs(folder) || path.Clean(folder) != folder || folder == "/":
		return fmt.Errorf("the folder of local volumes %q is not an absolute, clean path below the root", folder)
	case strings.ContainsFunc(folder, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }):
		return fmt.Errorf("the folder of local volumes %q has characters that cannot be printed", folder)
	}
	return nil
}

// Path returns the path of a volume's folder.
func Path(folder, name string) string { return path.Join(folder, name) }

// Provisioned reports whether the provisioner made a volume.
func Provisioned(v *corev1.PersistentVolume) bool {
	return v.Annotations[volume.AnnDynamicallyProvisioned] == Provisioner && v.Spec.Local != nil
}

// HostOf returns the host name of the one node that has a local volume. It reports false if the volume is
// of another kind, or does not require exactly one host name and nothing else.
func HostOf(v *corev1.PersistentVolume) (string, bool) {
	if v.Spec.Local == nil || v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return "", false
	}
	terms := v.Spec.NodeAffinity.Required.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchFields) != 0 || len(terms[0].MatchExpressions) != 1 {
		return "", false
	}
	only := terms[0].MatchExpressions[0]
	if only.Key != corev1.LabelHostname || only.Operator != corev1.NodeSelectorOpIn || len(only.Values) != 1 {
		return "", false
	}
	return only.Values[0], only.Values[0] != ""
}

// OnHost returns the affinity of a volume to the node with a host name.
func OnHost(host string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host},
		}},
	}}}}
}

// Removable reports whether the folder of a volume is to be removed: the provisioner made the volume, no
// claim holds it any more, its reclaim policy is Delete, and the object is being deleted.
func Removable(v *corev1.PersistentVolume) bool {
	released := v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed
	return Provisioned(v) && released && v.DeletionTimestamp != nil && slices.Contains(v.Finalizers, Finalizer) &&
		v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}
