package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/volumesource"
)

// mounts checks where a container mounts its pod's volumes, and which it uses as devices. A volume
// is one or the other, and each path is used once.
func mounts(c *corev1.Container, volumes map[string]*corev1.Volume, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	paths, used := sets.New[string](), map[string]string{} // of each device's volume the last path
	for _, device := range c.VolumeDevices {
		used[device.Name] = device.DevicePath
	}
	for i := range c.VolumeMounts {
		mount, at := &c.VolumeMounts[i], path.Child("volumeMounts").Index(i)
		if mount.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		if volumes[mount.Name] == nil {
			errs = append(errs, field.NotFound(at.Child("name"), mount.Name))
		}
		if mount.MountPath == "" {
			errs = append(errs, field.Required(at.Child("mountPath"), ""))
		}
		if paths.Has(mount.MountPath) {
			errs = append(errs, field.Invalid(at.Child("mountPath"), mount.MountPath, "must be unique"))
		}
		paths.Insert(mount.MountPath)
		if _, ok := used[mount.Name]; ok {
			errs = append(errs, field.Invalid(at.Child("name"), mount.Name, "must not already exist in volumeDevices"))
		}
		if holds(used, mount.MountPath) {
			errs = append(errs, field.Invalid(at.Child("mountPath"), mount.MountPath, "must not already exist as a path in volumeDevices"))
		}
		errs = append(errs, mountOptions(c, mount, at, path.Child("volumeMounts"))...)
	}
	return append(errs, devices(c, volumes, path.Child("volumeDevices"))...)
}

// mountOptions checks how a container mounts a volume. Most errors carry the path of the whole
// list, as in Kubernetes.
func mountOptions(c *corev1.Container, mount *corev1.VolumeMount, at, all *field.Path) field.ErrorList {
	var errs field.ErrorList
	if mount.SubPath != "" {
		errs = append(errs, volumesource.Descending(mount.SubPath, all.Child("subPath"))...)
	}
	if mount.SubPathExpr != "" {
		if mount.SubPath != "" {
			errs = append(errs, field.Invalid(at.Child("subPathExpr"), mount.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
		}
		errs = append(errs, volumesource.Descending(mount.SubPathExpr, all.Child("subPathExpr"))...)
	}
	if p := mount.MountPropagation; p != nil {
		errs = append(errs, values.Known(*p, all.Child("mountPropagation"),
			corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)...)
		privileged := c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
		if *p == corev1.MountPropagationBidirectional && !privileged {
			errs = append(errs, field.Forbidden(all.Child("mountPropagation"), "Bidirectional mount propagation is available only to privileged containers"))
		}
	}
	if r := mount.RecursiveReadOnly; r != nil {
		at := all.Child("recursiveReadOnly")
		errs = append(errs, values.Known(*r, at, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible)...)
		if *r != corev1.RecursiveReadOnlyEnabled && *r != corev1.RecursiveReadOnlyIfPossible {
			return errs
		}
		if !mount.ReadOnly {
			errs = append(errs, field.Forbidden(at, "may only be specified when readOnly is true"))
		}
		if p := mount.MountPropagation; p != nil && *p != corev1.MountPropagationNone {
			errs = append(errs, field.Forbidden(at, "may only be specified when mountPropagation is None or not specified"))
		}
	}
	return errs
}

func devices(c *corev1.Container, volumes map[string]*corev1.Volume, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names, paths, used := sets.New[string](), sets.New[string](), map[string]string{} // of each volume the last path
	for _, mount := range c.VolumeMounts {
		used[mount.Name] = mount.MountPath
	}
	for i, device := range c.VolumeDevices {
		at := path.Index(i)
		volume := volumes[device.Name]
		if device.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		} else if names.Has(device.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), device.Name, "must be unique"))
		}
		switch {
		case volume == nil:
			errs = append(errs, field.NotFound(at.Child("name"), device.Name))
		case volume.PersistentVolumeClaim == nil && volume.Ephemeral == nil:
			errs = append(errs, field.Invalid(at.Child("name"), device.Name,
				"can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
		if device.DevicePath == "" {
			errs = append(errs, field.Required(at.Child("devicePath"), ""))
		}
		if paths.Has(device.DevicePath) {
			errs = append(errs, field.Invalid(at.Child("devicePath"), device.DevicePath, "must be unique"))
		}
		if slices.Contains(strings.Split(device.DevicePath, "/"), "..") {
			errs = append(errs, field.Invalid(at.Child("devicePath"), device.DevicePath, "can not contain backsteps ('..')"))
		} else {
			paths.Insert(device.DevicePath)
		}
		if _, ok := used[device.Name]; ok {
			errs = append(errs, field.Invalid(at.Child("name"), device.Name, "must not already exist in volumeMounts"))
		}
		if holds(used, device.DevicePath) {
			errs = append(errs, field.Invalid(at.Child("devicePath"), device.DevicePath, "must not already exist as a path in volumeMounts"))
		}
		names.Insert(device.Name)
	}
	return errs
}

// holds reports whether a path is that of any volume.
func holds(used map[string]string, path string) bool {
	for _, each := range used {
		if each == path {
			return true
		}
	}
	return false
}
