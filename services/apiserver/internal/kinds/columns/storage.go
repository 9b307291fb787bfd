package columns

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func persistentVolumes() layout {
	spec, status := corev1.PersistentVolumeSpec{}.SwaggerDoc(), corev1.PersistentVolumeStatus{}.SwaggerDoc()
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Capacity", spec["capacity"]),
		text("Access Modes", spec["accessModes"]),
		text("Reclaim Policy", spec["persistentVolumeReclaimPolicy"]),
		text("Status", status["phase"]),
		text("Claim", spec["claimRef"]),
		text("StorageClass", "StorageClass of the pv"),
		text("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
		text("Reason", status["reason"]),
		age(),
		wide(text("VolumeMode", spec["volumeMode"])),
	}, func(v *corev1.PersistentVolume, now time.Time) []any {
		size, phase, claim := v.Spec.Capacity[corev1.ResourceStorage], string(v.Status.Phase), ""
		if v.DeletionTimestamp != nil {
			phase = "Terminating"
		}
		if ref := v.Spec.ClaimRef; ref != nil {
			claim = ref.Namespace + "/" + ref.Name
		}
		class, ok := v.Annotations[corev1.BetaStorageClassAnnotation]
		if !ok {
			class = v.Spec.StorageClassName
		}
		return []any{
			v.Name, size.String(), accessModes(v.Spec.AccessModes), string(v.Spec.PersistentVolumeReclaimPolicy), phase, claim,
			class, deref(v.Spec.VolumeAttributesClassName, unset), v.Status.Reason, ageOf(v, now), deref(v.Spec.VolumeMode, unset),
		}
	})
}

func csiDrivers() layout {
	doc := storagev1.CSIDriverSpec{}.SwaggerDoc()
	return of([]metav1.TableColumnDefinition{
		name(),
		boolean("AttachRequired", doc["attachRequired"]),
		boolean("PodInfoOnMount", doc["podInfoOnMount"]),
		boolean("StorageCapacity", doc["storageCapacity"]),
		text("TokenRequests", doc["tokenRequests"]),
		boolean("RequiresRepublish", doc["requiresRepublish"]),
		text("Modes", doc["volumeLifecycleModes"]),
		age(),
	}, func(d *storagev1.CSIDriver, now time.Time) []any {
		var modes []string
		for _, mode := range d.Spec.VolumeLifecycleModes {
			modes = append(modes, string(mode))
		}
		tokens := unset
		if d.Spec.TokenRequests != nil {
			var audiences []string
			for _, request := range d.Spec.TokenRequests {
				audiences = append(audiences, request.Audience)
			}
			tokens = strings.Join(audiences, ",")
		}
		return []any{
			d.Name, holds(d.Spec.AttachRequired, true), holds(d.Spec.PodInfoOnMount, false), holds(d.Spec.StorageCapacity, false),
			tokens, holds(d.Spec.RequiresRepublish, false), orNone(strings.Join(modes, ",")), ageOf(d, now),
		}
	})
}

func csiNodes() layout {
	return of([]metav1.TableColumnDefinition{
		name(), number("Drivers", "Drivers indicates the number of CSI drivers registered on the node"), age(),
	}, func(n *storagev1.CSINode, now time.Time) []any {
		return []any{n.Name, int64(len(n.Spec.Drivers)), ageOf(n, now)}
	})
}

func volumeAttachments() layout {
	spec := storagev1.VolumeAttachmentSpec{}.SwaggerDoc()
	attacher := text("Attacher", spec["attacher"])
	attacher.Format = "name"
	return of([]metav1.TableColumnDefinition{
		name(),
		attacher,
		text("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]),
		text("Node", spec["nodeName"]),
		boolean("Attached", storagev1.VolumeAttachmentStatus{}.SwaggerDoc()["attached"]),
		age(),
	}, func(a *storagev1.VolumeAttachment, now time.Time) []any {
		return []any{a.Name, a.Spec.Attacher, deref(a.Spec.Source.PersistentVolumeName, ""), a.Spec.NodeName, a.Status.Attached, ageOf(a, now)}
	})
}

func volumeAttributesClasses() layout {
	return of([]metav1.TableColumnDefinition{
		name(), text("DriverName", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]), age(),
	}, func(c *storagev1.VolumeAttributesClass, now time.Time) []any {
		return []any{c.Name, c.DriverName, ageOf(c, now)}
	})
}

// boolean returns a boolean column.
func boolean(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "boolean", Description: description}
}

// holds returns what p points to, or otherwise if p is nil.
func holds(p *bool, otherwise bool) bool {
	if p == nil {
		return otherwise
	}
	return *p
}
