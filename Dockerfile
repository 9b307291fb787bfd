# The images of all services, a target each: apiserver, controllers, scheduler, nodeagent, and cli,
# which is bin/garboard. `make images` builds them; so does compose/compose.yaml.
#
# Build arguments: VERSION and REVISION are written into programs and labels; GOPROXY and GOSUMDB are
# Go's, for those who have a proxy of their own. The secret "ca" is a bundle of authorities that
# downloads of Go modules are to trust, for those whose network has one of its own. GO_IMAGE and NODE_IMAGE
# are what is built with and what nodes begin with; name them by digest to build from the same ones again.

ARG GO_IMAGE=golang:1.26
ARG NODE_IMAGE=debian:bookworm-slim

FROM ${GO_IMAGE} AS build
WORKDIR /src
ENV CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOCACHE=/go/build-cache
ARG GOPROXY
ARG GOSUMDB
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=secret,id=ca \
    if [ -s /run/secrets/ca ]; then export SSL_CERT_FILE=/run/secrets/ca; fi; \
    go mod download
COPY cmd cmd
COPY libs libs
COPY proto proto
COPY services services
ARG VERSION=unknown
# One command, since the services share most packages. kubectl in bin/garboard says the version of
# the Kubernetes release whose API this is, as in the Makefile.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/go/build-cache --mount=type=secret,id=ca \
    if [ -s /run/secrets/ca ]; then export SSL_CERT_FILE=/run/secrets/ca; fi; \
    kubernetes=$(go list -m -f '{{.Version}}' k8s.io/api | sed 's/^v0\./v1./'); \
    minor=${kubernetes#v1.}; stamp=k8s.io/component-base/version; \
    go build -trimpath -o /out/ -ldflags "-s -w -X main.version=$VERSION -X $stamp.gitVersion=$kubernetes \
        -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*} -X $stamp.gitTreeState=clean" ./cmd/...
# What a program from scratch finds around it: a place for files of a moment, and its own folder.
# In the command line's image, the folders on which deployments mount what `garboard init` makes
# and where etcd and NATS keep their data: an empty volume takes the owner of what it is mounted on.
RUN mkdir -p /skeleton/tmp /skeleton/var/lib/garboard /volumes/pki /volumes/data \
 && cd /volumes/pki && mkdir ca apiserver controllers scheduler nodeagent etcd nats gateway prometheus admin \
 && cd /volumes/data && mkdir join etcd etcd-1 etcd-2 etcd-3 nats nats-1 nats-2 nats-3 prometheus

FROM scratch AS service
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.vendor="Garboard" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/garboard/garboard" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build --chown=65532:65532 /skeleton/ /
USER 65532:65532
WORKDIR /var/lib/garboard

FROM service AS apiserver
LABEL org.opencontainers.image.title="Garboard apiserver" \
      org.opencontainers.image.description="Serves the Kubernetes API from etcd and publishes its changes on NATS"
COPY --from=build /out/apiserver /apiserver
EXPOSE 6443
ENTRYPOINT ["/apiserver"]

FROM service AS controllers
LABEL org.opencontainers.image.title="Garboard controllers" \
      org.opencontainers.image.description="Drives the current state towards the desired one"
COPY --from=build /out/controllers /controllers
EXPOSE 10257
ENTRYPOINT ["/controllers"]

FROM service AS scheduler
LABEL org.opencontainers.image.title="Garboard scheduler" \
      org.opencontainers.image.description="Gives pods their nodes"
COPY --from=build /out/scheduler /scheduler
EXPOSE 10259
ENTRYPOINT ["/scheduler"]

FROM service AS cli
LABEL org.opencontainers.image.title="Garboard command line" \
      org.opencontainers.image.description="Makes the certificates of a deployment, and looks after it"
COPY --from=build --chown=65532:65532 /volumes/ /
COPY --from=build /out/garboard /garboard
ENTRYPOINT ["/garboard"]

# The node: a container runtime and the agent that works with it. It has to run privileged, since
# it runs containers itself.
FROM ${NODE_IMAGE} AS nodeagent
RUN apt-get update -q \
 && apt-get install -yq --no-install-recommends ca-certificates containerd containernetworking-plugins iptables runc \
 && rm -rf /var/lib/apt/lists/*
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.vendor="Garboard" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/garboard/garboard" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.title="Garboard node" \
      org.opencontainers.image.description="Runs pods: containerd, and the node agent that drives it"
COPY --chmod=0755 images/node/entrypoint /usr/local/bin/node
COPY images/node/containerd.toml /etc/containerd/config.toml
COPY --from=build /out/nodeagent /usr/local/bin/nodeagent
# Images and containers need a disk that is not a container's own.
VOLUME /var/lib/garboard
EXPOSE 10248
ENTRYPOINT ["/usr/local/bin/node"]
