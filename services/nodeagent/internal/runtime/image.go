package runtime

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PullImage pulls an image and returns the runtime's reference to it, for CreateContainer. The
// sandbox is the config of the pod's sandbox, which the runtime may evaluate, as the annotations of
// the image. Only ctx limits the time of the call.
func (c *Client) PullImage(ctx context.Context, ref string, auth Auth, sandbox SandboxConfig) (string, error) {
	request := &cri.PullImageRequest{Image: &cri.ImageSpec{Image: ref, Annotations: sandbox.Annotations}}
	if sandbox.UID != "" {
		request.SandboxConfig = c.sandboxConfig(sandbox)
	}
	if auth != (Auth{}) {
		request.Auth = &cri.AuthConfig{
			Username:      auth.Username,
			Password:      auth.Password,
			ServerAddress: auth.ServerAddress,
			IdentityToken: auth.IdentityToken,
			RegistryToken: auth.RegistryToken,
		}
	}
	answer, err := c.images.PullImage(ctx, request)
	if err != nil && status.Code(err) == codes.Unknown {
		// The code says nothing, and the message is what users read (CRI client of Kubernetes).
		err = errors.New(status.Convert(err).Message())
	}
	if err != nil {
		return "", failed(fmt.Sprintf("pulling the image %q", ref), err)
	}
	return answer.GetImageRef(), nil
}

// ImageStatus reads an image by tag, digest or ID; ErrNotFound when it is not on the node.
func (c *Client) ImageStatus(ctx context.Context, ref string) (Image, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer, err := c.images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: ref}})
	if err != nil {
		return Image{}, failed(fmt.Sprintf("reading the image %q", ref), err)
	}
	// CRI reports a missing image by an empty response.
	if answer.GetImage() == nil {
		return Image{}, fmt.Errorf("reading the image %q: %w", ref, ErrNotFound)
	}
	return imageOf(answer.GetImage()), nil
}

// ListImages lists all images on the node.
func (c *Client) ListImages(ctx context.Context) ([]Image, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer, err := c.images.ListImages(ctx, &cri.ListImagesRequest{})
	if err != nil {
		return nil, failed("listing the images", err)
	}
	images := make([]Image, 0, len(answer.GetImages()))
	for _, image := range answer.GetImages() {
		images = append(images, imageOf(image))
	}
	return images, nil
}

// RemoveImage removes an image; a missing image is not an error.
func (c *Client) RemoveImage(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	_, err := c.images.RemoveImage(ctx, &cri.RemoveImageRequest{Image: &cri.ImageSpec{Image: ref}})
	return gone(failed(fmt.Sprintf("removing the image %q", ref), err))
}

func imageOf(i *cri.Image) Image {
	image := Image{
		ID:       i.GetId(),
		Tags:     i.GetRepoTags(),
		Digests:  i.GetRepoDigests(),
		Size:     i.GetSize(),
		Username: i.GetUsername(),
		Pinned:   i.GetPinned(),
	}
	if uid := i.GetUid(); uid != nil {
		value := uid.GetValue()
		image.UID = &value
	}
	return image
}
