"""CifarNet as Caffe defines it (`cifar10_quick`): three convolutions, two linear layers, images of 32 pixels.

Fig. 1 of Tallent et al. 2017 has a CifarNet on CIFAR-10 and does not say which. Of the two nets that Caffe has for
these images this one has more parameters, 145,578 (`cifar10_full`: 89,578, and normalises). Layer names, kernels and
initialisation are those of BVLC/caffe, examples/cifar10/cifar10_quick_train_test.prototxt.

Shapes: N images, C channels, H rows, W columns, K classes.
"""

from collections import OrderedDict

from torch import Tensor, nn

SPREAD = {"conv1": 0.0001, "conv2": 0.01, "conv3": 0.01, "ip1": 0.1, "ip2": 0.1}  # of the weights at the start


class CifarNet(nn.Module):
    def __init__(self, classes: int, image_size: int) -> None:
        super().__init__()
        side = image_size // 2 // 2 // 2  # Caffe rounds up when it pools: 32 pixels -> 16 -> 8 -> 4
        self.features = nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(3, 32, kernel_size=5, padding=2),
                pool1=nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
                relu1=nn.ReLU(inplace=True),
                conv2=nn.Conv2d(32, 32, kernel_size=5, padding=2),
                relu2=nn.ReLU(inplace=True),
                pool2=nn.AvgPool2d(kernel_size=3, stride=2, ceil_mode=True),
                conv3=nn.Conv2d(32, 64, kernel_size=5, padding=2),
                relu3=nn.ReLU(inplace=True),
                pool3=nn.AvgPool2d(kernel_size=3, stride=2, ceil_mode=True),
            )
        )
        self.classifier = nn.Sequential(
            OrderedDict(flatten=nn.Flatten(), ip1=nn.Linear(64 * side * side, 64), ip2=nn.Linear(64, classes))
        )
        for name, parameter in self.named_parameters():
            _, layer, what = name.split(".")
            if what == "weight":
                nn.init.normal_(parameter, std=SPREAD[layer])
            else:
                nn.init.zeros_(parameter)

    def forward(self, images_N3HW: Tensor) -> Tensor:
        x_NCHW = self.features(images_N3HW)
        logits_NK: Tensor = self.classifier(x_NCHW)
        return logits_NK
