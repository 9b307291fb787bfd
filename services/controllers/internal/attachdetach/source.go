package attachdetach

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"
)

const (
	// plugin is Kubernetes' name of the plugin of all CSI drivers, and the beginning of the names of their
	// volumes: plugin/DRIVER^HANDLE.
	plugin    = "kubernetes.io/csi"
	separator = "^"

	// byName finds PersistentVolumes, and inlineByName pods, by the names of their volumes.
	byName, inlineByName = "name of volume", "name of inline volume"
)

// source is where a volume comes from.
type source struct {
	name           corev1.UniqueVolumeName
	driver, handle string
	// volume is the PersistentVolume, or what stands for an inline volume. Its source is CSI.
	volume pv
	// inline means that there is no PersistentVolume, migrated that the source was that of an in-tree plugin.
	inline, migrated bool
}

// ofVolume returns the source of a PersistentVolume; nil unless a CSI driver is responsible for it.
func ofVolume(v pv) *source {
	if v.Spec.CSI != nil {
		return newSource(v, false, false)
	}
	translator := csitranslation.New()
	if !translator.IsPVMigratable(v) {
		return nil
	}
	translated, err := translator.TranslateInTreePVToCSI(logr.Logger{}, v)
	if err != nil {
		return nil // Nothing can be attached for it. The node's Events say why the pod waits.
	}
	return newSource(translated, false, true)
}

// ofInline returns the source of a volume within a pod; nil unless a CSI driver took the place of its
// plugin. Other inline volumes of CSI drivers are never attached.
func ofInline(volume *corev1.Volume, namespace string) *source {
	translator := csitranslation.New()
	if !translator.IsInlineMigratable(volume) {
		return nil
	}
	translated, err := translator.TranslateInTreeInlineVolumeToCSI(logr.Logger{}, volume, namespace)
	if err != nil {
		return nil
	}
	return newSource(translated, true, true)
}

func newSource(v pv, inline, migrated bool) *source {
	csi := v.Spec.CSI
	if csi == nil || csi.Driver == "" || csi.VolumeHandle == "" {
		return nil
	}
	return &source{
		name: corev1.UniqueVolumeName(plugin + "/" + csi.Driver + separator + csi.VolumeHandle), driver: csi.Driver, handle: csi.VolumeHandle,
		volume: v, inline: inline, migrated: migrated,
	}
}

// exclusive reports whether a volume may be attached to one node only. A volume that does not say so may
// be attached to several.
func (s *source) exclusive() bool {
	if s == nil {
		return false
	}
	modes := s.volume.Spec.AccessModes
	return len(modes) > 0 && !slices.Contains(modes, corev1.ReadWriteMany) && !slices.Contains(modes, corev1.ReadOnlyMany)
}

// title is how Events and logs call the volume.
func (s *source) title() string {
	if s == nil {
		return "nil"
	}
	return s.volume.Name
}

func namesOf(s *source) []string {
	if s == nil {
		return nil
	}
	return []string{string(s.name)}
}

// inlineNames returns the names of the volumes that a pod brings with it.
func inlineNames(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		names = append(names, namesOf(ofInline(&pod.Spec.Volumes[i], pod.Namespace))...)
	}
	return names
}

// split returns the driver and the handle in the name of a volume; ok is false if it is not the name of a
// CSI driver's.
func split(name corev1.UniqueVolumeName) (driver, handle string, ok bool) {
	rest, ok := strings.CutPrefix(string(name), plugin+"/")
	if !ok {
		return "", "", false
	}
	driver, handle, ok = strings.Cut(rest, separator)
	return driver, handle, ok && driver != "" && handle != ""
}

// attachmentName returns the name of the VolumeAttachment of a volume and a node, which Kubernetes' node
// agent expects.
func attachmentName(driver, handle, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+driver+node)))
}
