"""AlexNet as Caffe defines it (`bvlc_alexnet`, after Krizhevsky et al. 2012): five convolutions, three linear layers.

Not the net of `torchvision.models`, which is Krizhevsky's later "one weird trick" without normalisation. Layer names,
dropout and initialisation are those of BVLC/caffe, models/bvlc_alexnet/train_val.prototxt. 58 of its 61 million
parameters are in the linear layers, and fc6 reads what the convolutions leave of the image: another image size is
another workload.

Shapes: N images, C channels, H rows, W columns, K classes.
"""

from collections import OrderedDict

from torch import Tensor, nn


class AlexNet(nn.Module):
    def __init__(self, classes: int, image_size: int, lrn: bool = True) -> None:
        super().__init__()
        # Caffe rounds up when it pools, ceil((n - 3) / 2) + 1, which is n // 2: 227 pixels -> 55 -> 27 -> 13 -> 6.
        side = ((image_size - 11) // 4 + 1) // 2 // 2 // 2
        self.features = nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(3, 96, kernel_size=11, stride=4),
                relu1=nn.ReLU(inplace=True),
                norm1=nn.LocalResponseNorm(5),
                pool1=nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
                conv2=nn.Conv2d(96, 256, kernel_size=5, padding=2, groups=2),
                relu2=nn.ReLU(inplace=True),
                norm2=nn.LocalResponseNorm(5),
                pool2=nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
                conv3=nn.Conv2d(256, 384, kernel_size=3, padding=1),
                relu3=nn.ReLU(inplace=True),
                conv4=nn.Conv2d(384, 384, kernel_size=3, padding=1, groups=2),
                relu4=nn.ReLU(inplace=True),
                conv5=nn.Conv2d(384, 256, kernel_size=3, padding=1, groups=2),
                relu5=nn.ReLU(inplace=True),
                pool5=nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
            )
        )
        if not lrn:
            del self.features.norm1, self.features.norm2
        self.classifier = nn.Sequential(
            OrderedDict(
                flatten=nn.Flatten(),
                fc6=nn.Linear(256 * side * side, 4096),
                relu6=nn.ReLU(inplace=True),
                drop6=nn.Dropout(0.5),
                fc7=nn.Linear(4096, 4096),
                relu7=nn.ReLU(inplace=True),
                drop7=nn.Dropout(0.5),
                fc8=nn.Linear(4096, classes),
            )
        )
        self._initialise()

    def forward(self, images_N3HW: Tensor) -> Tensor:
        x_NCHW = self.features(images_N3HW)
        logits_NK: Tensor = self.classifier(x_NCHW)
        return logits_NK

    def _initialise(self) -> None:
        for name, parameter in self.named_parameters():
            _, layer, what = name.split(".")
            if what == "weight":
                nn.init.normal_(parameter, std=0.005 if layer in ("fc6", "fc7") else 0.01)
            else:
                nn.init.constant_(parameter, 0.0 if layer in ("conv1", "conv3", "fc8") else 0.1)
